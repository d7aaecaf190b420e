"""Nearest miss: when nothing meets the constraints, what comes closest and what would help."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from advisor.candidate import build_candidate
from advisor.evidence import Evidence
from advisor.field import Field, Offers, offers_at
from advisor.recommendation import Candidate, NearestMiss
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
) -> NearestMiss:
    """Why nothing can be offered, the closest plan, and the one change that would fit."""
    if any(offers.index.size for offers in fitting):
        return _beyond_limits(workload, constraints, fitting, evidence, stack)
    return _beyond_memory(workload, constraints, fields, evidence, stack)


def _beyond_limits(
    workload: Workload,
    constraints: Constraints,
    fitting: Sequence[Offers],
    evidence: Evidence,
    stack: Stack,
) -> NearestMiss:
    """Plans fit in memory, but not in budget and deadline."""
    best: tuple[float, Offers, int] | None = None
    for offers in fitting:
        if not offers.index.size:
            continue
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


def _excess(
    offers: Offers, constraints: Constraints
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """By how much the worse of budget and deadline is missed, as a ratio."""
    excess = np.where(np.isfinite(offers.usd), 0.0, np.inf)
    if constraints.budget_usd is not None:
        excess = np.maximum(excess, offers.usd / float(constraints.budget_usd))
    if constraints.deadline_hours is not None:
        excess = np.maximum(excess, offers.hours / constraints.deadline_hours)
    if constraints.objective == "most_tokens":
        # Nothing is trained at all: the cheapest single step is what comes closest.
        excess = excess + offers.usd * 1e-12
    return excess


def _limits_reason(candidate: Candidate, constraints: Constraints) -> str:
    parts = []
    cost = candidate.cost
    if constraints.budget_usd is not None and cost["total_usd"] > constraints.budget_usd:
        parts.append(
            f"the closest run costs {cost['total_usd']:,.2f} USD, the budget is "
            f"{constraints.budget_usd:,.2f} USD"
        )
    if constraints.deadline_hours is not None and cost["hours"] > constraints.deadline_hours:
        parts.append(
            f"the closest run takes {cost['hours']:,.1f} hours, the deadline is "
            f"{constraints.deadline_hours:,.1f} hours"
        )
    return "; ".join(parts) or "the budget does not buy a single reserved day or training step"


def _limits_change(candidate: Candidate, constraints: Constraints) -> str:
    changes = []
    cost = candidate.cost
    if constraints.budget_usd is not None and cost["total_usd"] > constraints.budget_usd:
        changes.append(f"raise budget_usd to {cost['total_usd']:,.2f}")
    if constraints.deadline_hours is not None and cost["hours"] > constraints.deadline_hours:
        changes.append(f"raise deadline_hours to {cost['hours']:,.1f}")
    return " and ".join(changes) or "raise budget_usd, or set num_tokens to see what a run costs"


def _beyond_memory(
    workload: Workload,
    constraints: Constraints,
    fields: Sequence[Field],
    evidence: Evidence,
    stack: Stack,
) -> NearestMiss:
    """No plan fits in memory with the accepted risk."""
    best: tuple[float, Field, int] | None = None
    for field in fields:
        # The share of the GPU that is alive at the peak orders plans as the probability does.
        need = np.where(
            field.possible,
            field.memory.active_bytes / field.grid.instance.gpu.usable_bytes,
            np.inf,
        )
        at = int(np.argmin(need))
        value = float(need.ravel()[at])
        if np.isfinite(value) and (best is None or value < best[0]):
            best = (value, field, at)
    if best is None:
        return NearestMiss(
            candidate=None,
            reason="no plan keeps near the global batch asked for on the instances allowed",
            change="raise global_batch_tokens, allow fewer instances, or shorten seq_len",
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
        change=_memory_change(constraints),
    )


def _memory_change(constraints: Constraints) -> str:
    pins = constraints.pins
    if pins.activation_checkpointing in ("none", "selective"):
        mode = pins.activation_checkpointing
        return f"leave activation_checkpointing open or pin full instead of {mode}"
    if pins.micro_batch is not None and pins.micro_batch > 1:
        return f"leave micro_batch open or pin less than {pins.micro_batch}"
    if pins.sharding in ("none", "hybrid"):
        return f"leave sharding open or pin full instead of {pins.sharding}"
    if pins.loss_chunking is False:
        return "leave loss_chunking open or pin true"
    if pins.reshard_after_forward is False:
        return "leave reshard_after_forward open or pin true"
    if constraints.instances:
        return "allow instances with more memory (p6-b300.48xlarge has the most)"
    if pins.optimizer in (None, "adamw"):
        return "pin optimizer to adamw_8bit, allow more instances, or shorten seq_len"
    return "allow more instances or shorten seq_len"
