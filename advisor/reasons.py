"""Reasons: why each setting has its value, and what the next best value would cost.

Each is a change of one setting with the others held, read off the field that was searched.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.field import Field, Offers, flat, offers_at
from advisor.grid import AXES, Grid
from advisor.recommendation import Reason
from advisor.settings import FloatArray
from advisor.units import GIB
from advisor.workload import Constraints, Workload

_WHY = {
    "num_instances": "meets budget and deadline at the best objective",
    "sharding": "splits the model's states no wider than memory needs and the network allows",
    "activation_checkpointing": "keeps as much as fits, so that least is computed twice",
    "precision": "compute format of the blocks' matrix products; weights and optimizer stay fp32",
    "micro_batch": "large enough for efficient kernels, small enough to leave headroom",
    "loss_chunks": "slices of head and loss; more slices hold fewer logits at once",
    "reshard_after_forward": "frees gathered weights between forward and backward",
    "gradient_sync": "when gradients are reduced while micro steps accumulate",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rival:
    """The best plan of another instance type."""

    instance_type: str
    usd: float
    hours: float
    num_tokens: float


def reasons(
    offers: Offers,
    position: int,
    workload: Workload,
    constraints: Constraints,
    speed_factor: float,
    memory_factor: float,
) -> tuple[Reason, ...]:
    """One reason for each axis of the grid."""
    field = offers.field
    here = int(offers.index[position])
    at = [int(i) for i in np.unravel_index(here, field.grid.shape)]
    found = []
    for axis, name in enumerate(AXES):
        others = _others(field.grid, at, axis)
        index = np.asarray([here, *others], dtype=np.int64)
        figures = _Figures(
            possible=np.broadcast_to(field.possible, field.grid.shape).ravel()[index],
            peak_gib=flat(field, field.memory.reserved_bytes, index) * memory_factor / GIB,
            probability=flat(field, field.probability, index),
            offers=offers_at(field, workload, constraints, speed_factor, index),
        )
        found.append(_reason(field, name, figures, constraints))
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Figures:
    """Columns over one axis: first the chosen value, then the others."""

    possible: NDArray[np.bool_]
    peak_gib: FloatArray
    probability: FloatArray
    offers: Offers


def _others(grid: Grid, at: Sequence[int], axis: int) -> list[int]:
    """Flat indices of the plans that differ along one axis only."""
    found = []
    for choice in range(grid.shape[axis]):
        if choice != at[axis]:
            place = list(at)
            place[axis] = choice
            found.append(int(np.ravel_multi_index(place, grid.shape)))
    return found


def _reason(field: Field, name: str, figures: _Figures, constraints: Constraints) -> Reason:
    index = figures.offers.index
    return Reason(
        setting=name,
        value=value_of(field.grid, int(index[0]), name),
        reason=_WHY[name],
        next_best=_next_best(field, name, figures, constraints),
    )


def _next_best(field: Field, name: str, figures: _Figures, constraints: Constraints) -> str | None:
    usable = np.flatnonzero(figures.possible[1:]) + 1
    if usable.size == 0:
        return None
    limit = constraints.max_oom_probability
    fitting = usable[figures.probability[usable] <= limit]
    if fitting.size == 0:
        nearest = int(usable[np.argmin(figures.probability[usable])])
        capacity = field.grid.instance.gpu.usable_bytes / GIB
        return (
            f"{value_of(field.grid, int(figures.offers.index[nearest]), name)}: needs "
            f"{figures.peak_gib[nearest]:.1f} of {capacity:.1f} GiB, out of memory with "
            f"probability {figures.probability[nearest]:.0%}"
        )
    rival = int(fitting[np.argmin(_objective(figures.offers, constraints)[fitting])])
    return (
        f"{value_of(field.grid, int(figures.offers.index[rival]), name)}: "
        f"{_compared(figures.offers, rival)}, {figures.peak_gib[rival]:.1f} GiB"
    )


def _objective(offers: Offers, constraints: Constraints) -> FloatArray:
    if constraints.objective == "most_tokens":
        return -offers.num_tokens
    return offers.hours if constraints.objective == "fastest" else offers.usd + 1e-9 * offers.hours


def _compared(offers: Offers, rival: int) -> str:
    """Cost, time and tokens of a rival against the first plan."""
    parts = []
    if np.isfinite(offers.usd[rival]) and np.isfinite(offers.usd[0]):
        parts.append(_percent(offers.usd[rival] / offers.usd[0], "cost"))
    else:
        parts.append("cannot be bought for so long")
    parts.append(_percent(offers.hours[rival] / offers.hours[0], "time"))
    if offers.num_tokens[0] > 0 and offers.num_tokens[rival] != offers.num_tokens[0]:
        parts.append(_percent(offers.num_tokens[rival] / offers.num_tokens[0], "tokens"))
    return ", ".join(parts)


def _percent(ratio: float, what: str) -> str:
    change = (ratio - 1.0) * 100
    return f"same {what}" if abs(change) < 0.05 else f"{change:+.1f} % {what}"


def value_of(grid: Grid, flat_index: int, name: str) -> str:
    """The value of one axis of a plan, as people name it."""
    plan = grid.plan(flat_index)
    if name == "sharding":
        if plan.replica_degree == 1:
            return f"full over {plan.shard_degree} GPUs"
        return f"{plan.shard_degree} shards × {plan.replica_degree} copies"
    if name == "activation_checkpointing" and plan.checkpoint_every:
        return f"selective, every {plan.checkpoint_every}th block"
    value = getattr(plan, name)
    return (
        {True: "yes", False: "no"}.get(value, str(value)) if isinstance(value, bool) else str(value)
    )
