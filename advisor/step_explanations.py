"""Explanations of a plan's speed: each term of a step, tokens per second, and their interval."""

from collections.abc import Mapping

from advisor.communication_formulas import CommunicationFormulas
from advisor.evidence import Evidence
from advisor.explanation import Explanation, Symbol, as_factor, cited, explained, table_of
from advisor.hardware import Instance
from advisor.interval_explanations import explain_interval
from advisor.kernels import peak_of
from advisor.model import ModelShape
from advisor.plan import Plan
from advisor.residual import Residual
from advisor.stack import Stack
from advisor.step_formulas import StepFormulas, rates_source

# The numbers that are not terms of a step.
SPEED_FIGURES = (
    "step_s",
    "tokens_per_s",
    "tokens_per_s_per_gpu",
    "mfu_fraction",
    "interval low",
    "interval high",
)
TOKENS = "tokens of a step over its seconds: docs/throughput.md"
STEP = "the terms of a step sum to it: docs/throughput.md"
MFU = "Chowdhery et al. 2022 (PaLM, arXiv:2204.02311), appendix B, with causal attention"
# The words that stand for terms where a formula adds them up.
_WORDS = {
    "optimizer": "optimizer",
    "memory-bound work": "moved",
    "loss": "loss",
    "attention": "attention",
    "precision casts": "casts",
    "matrix products": "products",
    "recomputation": "recomputed",
    "host launches": "launches",
    "all-gather": "gathering",
    "reduce-scatter": "scattering",
    "all-reduce of copies": "copies",
    "loss slices": "slices",
}


def explain_step(
    shape: ModelShape, plan: Plan, stack: Stack, instance: Instance, evidence: Evidence
) -> dict[str, Explanation]:
    """Every number of a plan's speed by its name in an answer.

    The terms of a step that take any time, and SPEED_FIGURES. Raises ValueError for a program that
    does not run on FSDP2, and for a precision that the GPU lacks.
    """
    formulas = StepFormulas.of(shape, plan, stack, instance, evidence.factors)
    laws = {name: part for name, part in _laws(formulas, evidence).items() if part.value}
    terms = {name: _with_speed(part, evidence.throughput) for name, part in laws.items()}
    return {**terms, **_figures(terms, formulas, evidence.throughput)}


def _laws(formulas: StepFormulas, evidence: Evidence) -> dict[str, Explanation]:
    """The terms of one step, before the speed factor."""
    micro = formulas.micro_terms()
    compute_s = sum(part.value for part in micro.values())
    launches = formulas.launches()
    rates = rates_source(formulas.instance)
    communication = CommunicationFormulas(
        step=formulas,
        factors=evidence.factors,
        compute_s=compute_s,
        launch_s=launches.value,
    )
    computing = Symbol(
        name="c", value=compute_s, meaning="seconds of the GPU in one micro step, all terms"
    )
    waiting = f"max(0, {launches.formula} - c)"
    return {
        "optimizer": formulas.optimizer(),
        **{name: _in_each(formulas, part, part.formula) for name, part in micro.items()},
        "host launches": _in_each(formulas, launches, waiting, computing),
        **communication.terms(),
        "loss slices": formulas.seconds("A * (n - 1) * 3 * e", rates),
    }


def _in_each(
    formulas: StepFormulas, part: Explanation, formula: str, *symbols: Symbol
) -> Explanation:
    """A formula over a part's symbols, and others, once for each micro step."""
    each = f"A * {as_factor(formula)}"
    return formulas.seconds(each, part.source, *part.symbols, *symbols)


def _with_speed(part: Explanation, residual: Residual) -> Explanation:
    """A term as it is shown: stored results say how fast steps are against the law."""
    known = {**table_of(*part.symbols), "f": _speed_factor(residual)}
    return explained(f"{as_factor(part.formula)} / f", known, unit=part.unit, source=part.source)


def _speed_factor(residual: Residual) -> Symbol:
    return Symbol(
        name="f",
        value=residual.factor,
        meaning="tokens per second of stored results over those of the law, fitted on "
        f"{residual.count} stored results of {residual.num_sources} sources",
    )


def _figures(
    terms: Mapping[str, Explanation], formulas: StepFormulas, residual: Residual
) -> dict[str, Explanation]:
    """What follows from the terms."""
    added = table_of(
        *(
            Symbol(name=_WORDS[name], value=term.value, meaning=f"seconds of {name}")
            for name, term in terms.items()
        )
    )
    step = explained(" + ".join(added), added, unit="s", source=STEP)
    seconds = Symbol(name="S", value=step.value, meaning="seconds of one optimizer step")
    known = {**formulas.known, "S": seconds}
    speed = explained("N * T * A / S", known, unit="tokens/s", source=TOKENS)
    one_gpu = explained("T * A / S", known, unit="tokens/s", source=TOKENS)
    all_gpus = Symbol(name="v", value=speed.value, meaning="tokens per second of all GPUs")
    return {
        "step_s": step,
        "tokens_per_s": speed,
        "tokens_per_s_per_gpu": one_gpu,
        "mfu_fraction": _mfu(one_gpu, formulas),
        **explain_interval(all_gpus, residual, unit="tokens/s"),
    }


def _mfu(one_gpu: Explanation, formulas: StepFormulas) -> Explanation:
    """6 FLOPs per weight and token, attention's at the tokens that it looks back on."""
    gpu = formulas.instance.gpu
    speed = Symbol(name="v", value=one_gpu.value, meaning="tokens per second of one GPU")
    peak = Symbol(name="C", value=peak_of(gpu, "bf16"), meaning=f"dense bf16 FLOP/s of {gpu.name}")
    known = {**formulas.known, **table_of(speed, peak)}
    formula = "6 * (L * W + H + 2 * L * q * a) * v / C"
    return explained(formula, known, unit="1", source=cited(MFU, gpu.source))
