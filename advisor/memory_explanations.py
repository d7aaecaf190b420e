"""Explanations of a plan's peak memory: its terms, its interval, and the risk that it runs out."""

import math
from collections.abc import Mapping

from advisor.candidate import ALLOCATOR_TERM
from advisor.evidence import Evidence
from advisor.explanation import (
    Explanation,
    Symbol,
    as_factor,
    cited,
    explained,
    table_of,
    value_in_words,
)
from advisor.hardware import Gpu
from advisor.interval_explanations import explain_interval
from advisor.memory import Terms, estimate_memory
from advisor.memory_formulas import MemoryFormulas
from advisor.model import ModelShape
from advisor.plan import Plan
from advisor.residual import Residual
from advisor.settings import settings_of
from advisor.stack import Stack

ALLOCATOR = "the law's bytes against stored results; docs/model.md"
TIMELINE = "the largest of five instants of a step; docs/model.md"
RISK = "Student's t with 4 degrees of freedom; docs/decisions/0003-risk-as-student-t.md"
# The words that stand for terms where a formula adds them up.
_WORDS = {
    "parameters": "parameters",
    "optimizer": "optimizer",
    "gradients": "gradients",
    "gather buffer": "buffer",
    "activations": "activations",
    "last hidden states": "hidden",
    "gathered parameters": "gathered",
    "logits": "logits",
    "loss slices": "slices",
    "recomputed block": "recomputed",
    "block temporaries": "temporaries",
    "gradient reduction": "reduction",
    "optimizer temporaries": "temporaries",
    "buffer of the last gathered unit": "flat",
}
_FLAT = "buffer of the last gathered unit"
# Instants before the first gradients of a micro step.
_BEFORE_GRADIENTS = ("loss", "first block backward")


def explain_memory(
    shape: ModelShape, plan: Plan, stack: Stack, gpu: Gpu, evidence: Evidence
) -> dict[str, Explanation]:
    """Every number of a plan's memory by its name in an answer.

    The terms at the instant of the peak that are more than nothing, "peak_bytes", "active_bytes",
    "interval low" and "interval high", "capacity_bytes", "headroom_bytes" and
    "out_of_memory_probability". Raises ValueError for a program that does not run on FSDP2.
    """
    formulas = MemoryFormulas.of(shape, plan, stack)
    settings = settings_of(plan)
    raw = estimate_memory(shape, settings, stack)
    residual = evidence.memory_residual(settings)
    instant = max(raw.instants, key=lambda name: float(raw.instants[name]))
    parts = {name: formulas.term(name, instant) for name in _filled(raw.terms[instant])}
    terms = {name: _scaled(part, residual) for name, part in parts.items()}
    peak = _peak(parts, instant, residual)
    live_instant, live = _live(formulas, raw.terms)
    active = _sum_of(live, live_instant)
    return {
        **{name: term for name, term in terms.items() if round(term.value) > 0},
        ALLOCATOR_TERM: _allocator(parts, instant, residual),
        "peak_bytes": peak,
        "active_bytes": active if active.value <= peak.value else _at_peak(peak),
        **explain_interval(_peak_symbol(peak), residual, unit="bytes"),
        **_room(peak, gpu),
        "out_of_memory_probability": _risk(active.value, gpu, residual),
    }


def _filled(terms: Terms) -> list[str]:
    return [name for name, value in terms.items() if float(value) > 0]


def _factor(residual: Residual) -> Symbol:
    return Symbol(
        name="f",
        value=residual.factor,
        meaning="bytes that torch's allocator holds over those of the law, fitted on "
        f"{residual.count} stored results of {residual.num_sources} sources",
    )


def _scaled(part: Explanation, residual: Residual) -> Explanation:
    """A term as it is shown: less where results were below the law, never more."""
    if residual.factor >= 1.0:
        return part
    return explained(
        f"f * {as_factor(part.formula)}",
        table_of(*part.symbols, _factor(residual)),
        unit=part.unit,
        source=part.source,
    )


def _added(parts: Mapping[str, Explanation], instant: str) -> tuple[str, dict[str, Symbol]]:
    """The sum of some terms as a formula, in whole bytes, and its symbols."""
    symbols = table_of(
        *(
            Symbol(
                name=_WORDS[name],
                value=round(part.value),
                meaning=f"bytes of {name} at this instant of a step: {instant}",
            )
            for name, part in parts.items()
        )
    )
    return " + ".join(symbols), symbols


def _sum_of(parts: Mapping[str, Explanation], instant: str) -> Explanation:
    formula, symbols = _added(parts, instant)
    return explained(formula, symbols, unit="bytes", source=TIMELINE)


def _peak(parts: Mapping[str, Explanation], instant: str, residual: Residual) -> Explanation:
    added, symbols = _added(parts, instant)
    known = {**symbols, "f": _factor(residual)}
    return explained(f"f * ({added})", known, unit="bytes", source=TIMELINE)


def _allocator(parts: Mapping[str, Explanation], instant: str, residual: Residual) -> Explanation:
    added, symbols = _added(parts, instant)
    known = {**symbols, "f": _factor(residual)}
    return explained(f"max(0, f - 1) * ({added})", known, unit="bytes", source=ALLOCATOR)


def _live(
    formulas: MemoryFormulas, terms: Mapping[str, Terms]
) -> tuple[str, dict[str, Explanation]]:
    """The instant at which most bytes are live, and what is live then."""
    held = {}
    for instant, present in terms.items():
        # Before the backward only what earlier micro steps accumulated exists of the gradients.
        missing = {"gather buffer"}
        if instant in _BEFORE_GRADIENTS and formulas.plan.accumulation_steps == 1:
            missing.add("gradients")
        names = [name for name in _filled(present) if name not in missing]
        live = {name: formulas.term(name, instant) for name in names}
        flat = formulas.flat_buffer(instant)
        held[instant] = {**live, _FLAT: flat} if flat.value else live
    most = max(held, key=lambda name: sum(part.value for part in held[name].values()))
    return most, held[most]


def _peak_symbol(peak: Explanation) -> Symbol:
    return Symbol(
        name="peak",
        value=round(peak.value),
        meaning="bytes that the allocator holds at the peak, as max_memory_reserved reports them",
    )


def _at_peak(peak: Explanation) -> Explanation:
    """Live bytes where the law has more of them than the allocator is said to hold."""
    return explained("peak", table_of(_peak_symbol(peak)), unit="bytes", source=ALLOCATOR)


def _room(peak: Explanation, gpu: Gpu) -> dict[str, Explanation]:
    memory = Symbol(
        name="M", value=gpu.memory_bytes, meaning=f"memory of one {gpu.name} as torch reports it"
    )
    context = Symbol(
        name="x",
        value=gpu.reserved_bytes,
        meaning="bytes of the CUDA context and its libraries in one process",
    )
    capacity = Symbol(
        name="C",
        value=gpu.usable_bytes,
        meaning=f"bytes that torch's allocator can get on one {gpu.name}",
    )
    source = cited(gpu.source, gpu.reserved_source)
    return {
        "capacity_bytes": explained(
            "M - x", table_of(memory, context), unit="bytes", source=source
        ),
        "headroom_bytes": explained(
            "C - peak", table_of(capacity, _peak_symbol(peak)), unit="bytes", source=source
        ),
    }


def _risk(live_bytes: float, gpu: Gpu, residual: Residual) -> Explanation:
    """Upper tail of Student's t: (1 - c)² · (2 + c) / 4 with c = x / √(4 + x²)."""
    room = Symbol(
        name="x",
        value=math.log(gpu.usable_bytes / live_bytes) / residual.scale,
        meaning=f"ln of capacity over live bytes, {gpu.usable_bytes:,} over {live_bytes:,}, in "
        f"units of {value_in_words(residual.scale)}, the scale of ln(measured / predicted)",
    )
    share = "x / (4 + x ** 2) ** 0.5"
    formula = f"(1 - {share}) ** 2 * (2 + {share}) / 4"
    return explained(formula, table_of(room), unit="1", source=RISK)
