"""Explanations of what a plan costs: hours, what is paid for, and the parts of the price."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from advisor.cost import BLOCK_DAYS, DAY_S, Terms, checkpoint_s, stretch
from advisor.explanation import Explanation, Symbol, cited, explained, symbols_of, table_of
from advisor.field import WEIGHT_BYTES
from advisor.model import ModelShape
from advisor.plan import Plan
from advisor.settings import STATE_BYTES
from advisor.units import DAY_HOURS, GB

OVERHEADS = "our assumptions on start-up and checkpoints (advisor/cost.py)"
FAILURES = "failures: Llama Team 2024 (arXiv:2407.21783), section 3.3.4"
BLOCKS = "EC2 user guide, Capacity Blocks"
PLANS = "SageMaker developer guide, training plans"
BY_SECOND = "billing by the second, EC2 pricing"
STEPS = "tokens of one step: docs/throughput.md"
# Capacity Blocks are sold by the day up to so many, and by the week above.
_DAYS_SOLD_SINGLY = 14
# The letters of a part's formula that stand for its seconds.
_PART_SECONDS = {
    "training": "n * S",
    "start_up": "u",
    "checkpoints": "(o + n * S * o / j)",
    "failures": "x * G * y * n * S * (1 + o / j)",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bill:
    """A run with how it is paid for, and the symbols of its formulas."""

    terms: Terms
    cost: Mapping[str, Any]
    wall_s: float
    known: Mapping[str, Symbol]

    def usd(self, formula: str) -> Explanation:
        return explained(formula, self.known, unit="USD", source=self.cost["price_source"])


def explain_steps(plan: Plan, num_tokens: int) -> Explanation:
    """The number of steps of a run over so many tokens."""
    known = symbols_of(
        {
            "D": (num_tokens, "tokens of the run, whole steps of them"),
            "b": (plan.micro_batch, "sequences of one forward on one GPU"),
            "s": (plan.seq_len, "tokens of one sequence"),
            "A": (plan.accumulation_steps, "micro steps of one optimizer step"),
            "N": (plan.num_gpus, "GPUs of the run"),
        }
    )
    return explained("D / (b * s * A * N)", known, unit="1", source=STEPS)


def explain_cost(
    shape: ModelShape,
    plan: Plan,
    terms: Terms,
    cost: Mapping[str, Any],
    *,
    num_steps: int,
    num_tokens: int,
    step_s: float,
) -> dict[str, Explanation]:
    """Every number of a cost (advisor.cost.Cost.as_mapping) by its name there.

    terms: how the instances are paid for, at the rate of the cost. "parts_usd.NAME" are the parts;
    what is idle has no formula where seconds are billed, for then nothing is.
    """
    bill = _bill(shape, plan, terms, cost, num_steps, num_tokens, step_s)
    hours = "(u + o + n * S * (1 + o / j) * (1 + x * G * y)) / 3600"
    return {
        "hours": explained(hours, bill.known, unit="h", source=cited(OVERHEADS, FAILURES)),
        "paid_hours": _paid_hours(bill),
        "total_usd": bill.usd("r * I * p"),
        "usd_per_billion_tokens": bill.usd("total * 10 ** 9 / D"),
        **_parts(bill),
    }


def _bill(
    shape: ModelShape,
    plan: Plan,
    terms: Terms,
    cost: Mapping[str, Any],
    num_steps: int,
    num_tokens: int,
    step_s: float,
) -> _Bill:
    num_bytes = round(shape.num_parameters * (WEIGHT_BYTES + STATE_BYTES[plan.optimizer]))
    line = stretch(terms, num_instances=plan.num_instances, checkpoint_bytes=num_bytes)
    wall_s = line.wall_s(num_steps * step_s)
    known = {
        **_run_symbols(terms, plan, num_bytes),
        **symbols_of(
            {
                "n": (num_steps, "optimizer steps of the run"),
                "S": (step_s, "seconds of one optimizer step"),
                "D": (max(num_tokens, 1), "tokens of the run"),
                "w": (wall_s, "seconds of the run with its overheads"),
                "p": (cost["paid_hours"], "hours that are paid for each instance"),
                "I": (cost["num_instances_bought"], "instances that are paid for"),
                "r": (cost["usd_per_instance_hour"], _rate_meaning(cost)),
                "total": (cost["total_usd"], "USD of the whole run"),
            }
        ),
    }
    return _Bill(terms=terms, cost=cost, wall_s=wall_s, known=known)


def _run_symbols(terms: Terms, plan: Plan, checkpoint_bytes: int) -> dict[str, Symbol]:
    """What a run takes beside steady training."""
    overheads = terms.overheads
    speed = overheads.checkpoint_bytes_per_s / GB
    one = checkpoint_s(terms, num_instances=plan.num_instances, checkpoint_bytes=checkpoint_bytes)
    return symbols_of(
        {
            "u": (overheads.start_up_s, "seconds of start-up, our assumption"),
            "o": (
                one,
                f"seconds of one checkpoint of {checkpoint_bytes:,} bytes, written by "
                f"{plan.num_instances} instances at {speed:g} GB/s each",
            ),
            "j": (overheads.checkpoint_interval_s, "seconds of training between two checkpoints"),
            "x": (
                overheads.failures_per_gpu_s,
                "unexpected interruptions of one GPU in a second: 419 in 54 days of 16,384 GPUs",
            ),
            "G": (plan.num_instances * terms.instance.num_gpus, "GPUs of the run"),
            "y": (
                overheads.lost_per_failure_s,
                "seconds lost to an interruption: half a checkpoint interval and a start-up",
            ),
            "i": (plan.num_instances, "instances that train"),
            "m": (
                terms.end_margin_s,
                "seconds at the end of a reservation in which AWS ends its instances",
            ),
        }
    )


def _rate_meaning(cost: Mapping[str, Any]) -> str:
    if cost["price_date"] is None:
        return "USD per hour of one instance, your own figure"
    return f"USD per hour of one instance, read on {cost['price_date']}"


def _paid_hours(bill: _Bill) -> Explanation:
    """Whole seconds, or the fewest days on sale that hold the run."""
    if not bill.terms.whole_days:
        return explained("ceil(w) / 3600", bill.known, unit="h", source=BY_SECOND)
    days = (bill.wall_s + bill.terms.end_margin_s) / DAY_S
    is_block = bill.terms.day_choices is BLOCK_DAYS
    formula = f"{DAY_HOURS} * ceil((w + m) / {DAY_S})"
    if is_block and days > _DAYS_SOLD_SINGLY:
        formula = f"{DAY_HOURS} * 7 * ceil((w + m) / {DAY_S} / 7)"
    return explained(formula, bill.known, unit="h", source=BLOCKS if is_block else PLANS)


def _parts(bill: _Bill) -> dict[str, Explanation]:
    """The parts in whole cents; what rounding leaves of the total goes to the largest."""
    formulas = {name: f"r * i * {seconds} / 3600" for name, seconds in _PART_SECONDS.items()}
    parts = {name: bill.usd(formula) for name, formula in formulas.items()}
    if bill.terms.whole_days:
        parts["idle"] = _idle(bill, parts)
    left = bill.cost["total_usd"] - math.fsum(_cents(part) for part in parts.values())
    if abs(left) >= 0.005:
        largest = max(parts, key=lambda name: _cents(parts[name]))
        parts[largest] = _with_rest(parts[largest], left)
    return {f"parts_usd.{name}": part for name, part in parts.items()}


def _idle(bill: _Bill, parts: Mapping[str, Explanation]) -> Explanation:
    """What is paid for and not used."""
    used = symbols_of(
        {
            name.replace("_", ""): (_cents(part), f"USD of {name.replace('_', '-')}")
            for name, part in parts.items()
        }
    )
    formula = f"max(0, total - {' - '.join(used)})"
    known = {**bill.known, **used}
    return explained(formula, known, unit="USD", source=bill.cost["price_source"])


def _with_rest(part: Explanation, left: float) -> Explanation:
    rest = Symbol(
        name="z",
        value=round(left, 2),
        meaning="USD that whole seconds and whole cents leave, counted to the largest part",
    )
    known = table_of(*part.symbols, rest)
    return explained(f"{part.formula} + z", known, unit=part.unit, source=part.source)


def _cents(part: Explanation) -> float:
    return round(part.value, 2)
