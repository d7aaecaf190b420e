"""Reasons: why each setting has its value, and what the next best value would cost.

Each is a change of one setting with the others held, read off the field that was searched.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.field import Field, Offers, flat, offers_at
from advisor.grid import AXES, Grid
from advisor.plan import Plan
from advisor.recommendation import Reason
from advisor.settings import FloatArray
from advisor.units import GIB
from advisor.workload import Constraints, Workload

# The settings that have a reason each, in the order in which they are told.
SETTINGS = (
    "num_instances",
    "sharding",
    "activation_checkpointing",
    "precision",
    "micro_batch",
    "loss_chunks",
    "reshard_after_forward",
    "gradient_sync",
)
_SIZE = ("num_instances", "micro_batch")
_CHECKPOINTING = {
    "none": "every activation is kept, nothing is computed twice",
    "selective": "matrix products and attention are kept, the cheap rest is computed again",
    "full": "only the input of each block is kept, its forward is computed again",
}
_PRECISION = {
    "bf16": "the reference format; nothing is quantised",
    "fp8": "matrix products of the blocks in FP8; weights and optimizer stay fp32",
    "mxfp8": "matrix products of the blocks in block-scaled FP8; weights and optimizer stay fp32",
    "nvfp4": "matrix products of the blocks in FP4; weights and optimizer stay fp32",
}
_RESHARD = {
    True: "a block's gathered weights are freed, and gathered again for its backward",
    False: "gathered weights stay until the backward: one gather fewer",
}
_SYNC = {
    "each": "gradients are reduced in each micro step and stay sharded",
    "last": "gradients are reduced once a step; until then each GPU has them whole",
}


def reasons(
    offers: Offers,
    position: int,
    workload: Workload,
    constraints: Constraints,
    speed_factor: float,
) -> tuple[Reason, ...]:
    """One reason for each of SETTINGS."""
    field = offers.field
    here = int(offers.index[position])
    at = [int(i) for i in np.unravel_index(here, field.grid.shape)]
    along = [_others(field.grid, at, name) for name in SETTINGS]
    index = np.asarray([here, *(place for places in along for place in places)], dtype=np.int64)
    table = _Table(
        possible=flat(field, field.possible, index) > 0,
        risk=field.probability(index),
        peak_gib=flat(field, field.peaks.reserved_bytes, index)
        * flat(field, field.evidence.reserved_factor(field.settings), index)
        / GIB,
        offers=offers_at(field, workload, constraints, speed_factor, index),
    )
    plan = field.grid.plan(here)
    found = []
    first = 1
    for name, places in zip(SETTINGS, along, strict=True):
        rows = np.arange(first, first + len(places))
        first += len(places)
        found.append(
            Reason(
                setting=name,
                value=value_of(plan, name),
                reason=_why(plan, name),
                next_best=_next_best(field, name, table, rows, constraints),
            )
        )
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    """Columns over the chosen plan (row 0) and all that differ from it along one axis."""

    possible: NDArray[np.bool_]
    risk: FloatArray
    peak_gib: FloatArray
    offers: Offers


def _others(grid: Grid, at: Sequence[int], name: str) -> list[int]:
    """Flat indices of the plans that differ in one setting only."""
    axis = AXES.index("size" if name in _SIZE else name)
    choices: Sequence[int] = range(grid.shape[axis])
    if name in _SIZE:
        kept = 1 - _SIZE.index(name)
        here = grid.sizes[at[axis]]
        choices = [place for place, size in enumerate(grid.sizes) if size[kept] == here[kept]]
    return [
        int(np.ravel_multi_index([*at[:axis], choice, *at[axis + 1 :]], grid.shape))
        for choice in choices
        if choice != at[axis]
    ]


def _why(plan: Plan, name: str) -> str:
    """What a setting's value means for the run."""
    checkpointing = _CHECKPOINTING[plan.activation_checkpointing]
    if plan.checkpoint_every:
        every = plan.checkpoint_every
        checkpointing = f"one block in {every} keeps only its input, the others keep everything"
    slices = f"head and loss in {plan.loss_chunks} slices: one slice of logits is alive"
    meanings = {
        "num_instances": "meets budget and deadline at the best objective",
        "sharding": "GPUs that one copy of weights, gradients and optimizer is split over",
        "activation_checkpointing": checkpointing,
        "precision": _PRECISION[plan.precision],
        "micro_batch": f"with {plan.accumulation_steps} micro steps it makes the global batch",
        "loss_chunks": slices if plan.loss_chunks > 1 else "the loss takes all logits at once",
        "reshard_after_forward": _RESHARD[plan.reshard_after_forward],
        "gradient_sync": _SYNC[plan.gradient_sync],
    }
    return meanings[name]


def _next_best(
    field: Field, name: str, table: _Table, rows: NDArray[np.int64], constraints: Constraints
) -> str | None:
    usable = rows[table.possible[rows]]
    if usable.size == 0:
        return None
    risk = table.risk
    capacity = field.grid.instance.gpu.usable_bytes / GIB
    fits = (risk <= constraints.max_oom_probability) & (table.peak_gib <= capacity)
    fitting = usable[fits[usable]]
    if fitting.size == 0:
        nearest = int(usable[np.argmin(risk[usable])])
        # Within the accepted risk, and still more than the allocator is likely to hold.
        slow = "the allocator would give memory back and ask again, which slows each step"
        danger = f"out of memory with probability {risk[nearest]:.0%}"
        return (
            f"{value_of(_plan(table, nearest), name)}: needs "
            f"{table.peak_gib[nearest]:.1f} of {capacity:.1f} GiB, "
            f"{slow if risk[nearest] <= constraints.max_oom_probability else danger}"
        )
    rival = int(fitting[np.argmin(_objective(table.offers, constraints)[fitting])])
    return (
        f"{value_of(_plan(table, rival), name)}: "
        f"{_compared(table.offers, rival)}, {table.peak_gib[rival]:.1f} GiB"
    )


def _objective(offers: Offers, constraints: Constraints) -> FloatArray:
    if constraints.objective == "most_tokens":
        return -offers.num_tokens
    return offers.hours if constraints.objective == "fastest" else offers.usd + 1e-9 * offers.hours


def _compared(offers: Offers, rival: int) -> str:
    """Cost, time and tokens of a rival against the first plan."""
    parts = []
    if np.isfinite(offers.usd[rival]) and np.isfinite(offers.usd[0]):
        change = _change(offers.usd[rival] / offers.usd[0])
        parts.append(f"{change} % cost" if change else "same cost")
    else:
        parts.append("cannot be bought for so long")
    change = _change(offers.hours[rival] / offers.hours[0])
    parts.append(f"{change} % time" if change else "same time")
    if offers.num_tokens[0] > 0 and offers.num_tokens[rival] != offers.num_tokens[0]:
        change = _change(offers.num_tokens[rival] / offers.num_tokens[0])
        parts.append(f"{change} % tokens" if change else "same tokens")
    return ", ".join(parts)


def _change(ratio: float) -> str:
    """Percent more or less; nothing where it would read as 0.0."""
    percent = (ratio - 1.0) * 100
    return "" if abs(percent) < 0.05 else f"{percent:+.1f}"


def _plan(table: _Table, row: int) -> Plan:
    return table.offers.field.grid.plan(int(table.offers.index[row]))


def value_of(plan: Plan, name: str) -> str:
    """The value of one setting of a plan, as people name it."""
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
