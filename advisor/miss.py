"""Nearest miss: when nothing meets the constraints, what comes closest and what would help."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from advisor.candidate import build_candidate
from advisor.evidence import Evidence
from advisor.field import Field, Offers, offers_at
from advisor.recommendation import Candidate, NearestMiss
from advisor.remedies import remedies
from advisor.stack import Stack
from advisor.units import GIB
from advisor.workload import Constraints, Workload


def nearest_miss(
    workload: Workload,
    constraints: Constraints,
    fields: Sequence[Field],
    fitting: Sequence[Offers],
    evidence: Evidence,
    stack: Stack,
    fits: Callable[[Workload, Constraints], bool],
) -> NearestMiss:
    """Why nothing can be offered, the closest plan, and the change that would help.

    fits: whether some plan fits in memory for another question.
    """
    if any(offers.index.size for offers in fitting):
        return _beyond_limits(workload, constraints, fitting, evidence, stack)
    return _beyond_memory(workload, constraints, fields, evidence, stack, fits)


def _beyond_limits(
    workload: Workload,
    constraints: Constraints,
    fitting: Sequence[Offers],
    evidence: Evidence,
    stack: Stack,
) -> NearestMiss:
    """Plans fit in memory, but not in budget and deadline."""
    best: tuple[float, Offers, int] | None = None
    for each in fitting:
        if not each.index.size:
            continue
        offers = _one_step(each, workload, constraints, evidence)
        excess = _excess(offers, constraints)
        at = int(np.argmin(excess))
        if best is None or excess[at] < best[0]:
            best = (float(excess[at]), offers, at)
    if best is None or not np.isfinite(best[0]):
        return NearestMiss(
            candidate=None,
            reason="the plans that fit in memory take longer than can be reserved in one piece",
            change="train on fewer tokens, allow more instances, or pay by the second (on_demand)",
        )
    _, offers, at = best
    candidate = build_candidate(offers, at, workload, evidence, stack)
    return NearestMiss(
        candidate=candidate,
        reason=_limits_reason(candidate, constraints),
        change=_limits_change(candidate, constraints),
    )


def _one_step(
    offers: Offers, workload: Workload, constraints: Constraints, evidence: Evidence
) -> Offers:
    """What is asked for; or where as much as possible is, and nothing is, one optimizer step."""
    if constraints.objective != "most_tokens":
        return offers
    return offers_at(
        offers.field,
        replace(workload, num_tokens=1),
        replace(constraints, objective="cheapest"),
        evidence.throughput.factor,
        offers.index,
    )


def _excess(
    offers: Offers, constraints: Constraints
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """By how much the worse of budget and deadline is missed, as a ratio."""
    excess = np.where(np.isfinite(offers.usd), 0.0, np.inf)
    if constraints.budget_usd is not None:
        excess = np.maximum(excess, offers.usd / float(constraints.budget_usd))
    if constraints.deadline_hours is not None:
        excess = np.maximum(excess, offers.hours / constraints.deadline_hours)
    return excess


def _limits_reason(candidate: Candidate, constraints: Constraints) -> str:
    what = "the closest run"
    if constraints.objective == "most_tokens":
        what = "a single optimizer step, with what must be bought for it,"
    parts = []
    cost, hours = _beyond(candidate, constraints)
    if cost is not None:
        parts.append(
            f"{what} costs {cost:,.2f} USD, the budget is {constraints.budget_usd:,.2f} USD"
        )
    if hours is not None:
        parts.append(
            f"{what} takes {hours:,.1f} hours, the deadline is {constraints.deadline_hours:g} hours"
        )
    return "; ".join(parts) or f"{what} does not end within budget and deadline"


def _limits_change(candidate: Candidate, constraints: Constraints) -> str:
    changes = []
    cost, hours = _beyond(candidate, constraints)
    if cost is not None:
        changes.append(f"raise budget_usd to {cost:,.2f}")
    if hours is not None:
        changes.append(f"raise deadline_hours to {math.ceil(hours * 10) / 10:,.1f}")
    return " and ".join(changes) or "raise budget_usd or deadline_hours"


def _beyond(candidate: Candidate, constraints: Constraints) -> tuple[float | None, float | None]:
    """Cost and hours of a candidate, each where it is more than is allowed."""
    cost, hours = candidate.cost["total_usd"], candidate.cost["hours"]
    too_dear = constraints.budget_usd is not None and cost is not None
    too_long = constraints.deadline_hours is not None and hours is not None
    return (
        cost if too_dear and cost > constraints.budget_usd else None,
        hours if too_long and hours > constraints.deadline_hours else None,
    )


def _beyond_memory(
    workload: Workload,
    constraints: Constraints,
    fields: Sequence[Field],
    evidence: Evidence,
    stack: Stack,
    fits: Callable[[Workload, Constraints], bool],
) -> NearestMiss:
    """No plan fits in memory with the accepted risk."""
    best: tuple[float, Field, int] | None = None
    for field in fields:
        # The share of the GPU that is alive at the peak orders plans as the probability does.
        need = np.where(
            field.possible,
            field.peaks.active_bytes / field.grid.instance.gpu.usable_bytes,
            np.inf,
        )
        at = int(np.argmin(need))
        value = float(need.ravel()[at])
        if np.isfinite(value) and (best is None or value < best[0]):
            best = (value, field, at)
    if best is None:
        return NearestMiss(
            candidate=None,
            reason="no plan keeps near the global batch asked for on the instances allowed"
            if not fields
            else "no plan agrees with all that is pinned at once",
            change=_remedy(workload, constraints, fits),
        )
    _, field, at = best
    one = replace(constraints, objective="cheapest") if workload.num_tokens else constraints
    offers = offers_at(field, workload, one, evidence.throughput.factor, np.asarray([at]))
    candidate = build_candidate(offers, 0, workload, evidence, stack)
    memory = candidate.memory
    return NearestMiss(
        candidate=candidate,
        reason=(
            f"the leanest plan needs {memory.peak_bytes / GIB:.1f} of "
            f"{memory.capacity_bytes / GIB:.1f} GiB and would run out of memory with probability "
            f"{memory.out_of_memory_probability:.0%}; the accepted risk is "
            f"{constraints.max_oom_probability:.0%}"
        ),
        change=_remedy(workload, constraints, fits),
    )


def _remedy(
    workload: Workload, constraints: Constraints, fits: Callable[[Workload, Constraints], bool]
) -> str:
    """The mildest change that has been seen to help."""
    for words, other, looser in remedies(workload, constraints):
        if fits(other, looser):
            return words
    return "none of the single changes that were tried makes it fit; a smaller model would"
