"""Field: the figures of every plan of one grid, and which of them may be offered."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from advisor.cost import Terms
from advisor.cost_columns import CostColumns
from advisor.evidence import Evidence, capacity_bytes, vetoed
from advisor.grid import Grid
from advisor.peaks import Peaks, peaks_of
from advisor.settings import FloatArray, Settings
from advisor.stack import Stack
from advisor.throughput import StepTime, fabric_of, step_time
from advisor.units import HOUR_S
from advisor.workload import Constraints, Workload

# Parameters in fp32 and the states: what one checkpoint holds.
WEIGHT_BYTES = 4.0
# Elements written out in the time that finding one by its indices takes (measured, about).
_GATHER_COST = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One instance type's plans. Arrays broadcast to grid.shape; Offers are its usable ones.

    possible: the plan means something, near the batch asked for, and no stored result vetoes it.
    evidence: what gives the probability of running out of memory.
    """

    grid: Grid
    settings: Settings
    terms: Terms
    peaks: Peaks
    step: StepTime
    possible: NDArray[np.bool_]
    evidence: Evidence

    def probability(self, index: NDArray[np.int64]) -> FloatArray:
        """Of running out of memory, for the plans at flat indices."""
        return np.asarray(
            self.evidence.out_of_memory_probability(
                flat(self, self.peaks.active_bytes, index),
                replace(self.settings, shard_degree=flat(self, self.settings.shard_degree, index)),
                capacity_bytes(self.grid.instance.gpu),
            )
        )

    def fits(self, max_probability: float) -> NDArray[np.bool_]:
        """Plans that are possible and fit.

        What the allocator is likely to hold fits too, so that it need not give memory back and ask
        again (throughput falls then: fms-fsdp issue 63).
        """
        capacity = capacity_bytes(self.grid.instance.gpu)
        limit = self.evidence.live_bytes_limit(self.settings, capacity, max_probability)
        held = capacity / self.evidence.reserved_factor(self.settings)
        return (
            self.possible & (self.peaks.active_bytes <= limit) & (self.peaks.reserved_bytes <= held)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Offers:
    """Flat columns over some plans of a field; `index` is into the flattened grid.

    hours are wall clock; usd infinite where so much is not sold; num_tokens is what the plan trains
    on (all that was asked for, or what budget and deadline leave room for).
    """

    field: Field
    index: NDArray[np.int64]
    num_tokens: FloatArray
    num_instances: FloatArray
    hours: FloatArray
    usd: FloatArray


def build_fields(
    workload: Workload,
    grids: Sequence[tuple[Grid, Terms]],
    stack: Stack,
    evidence: Evidence,
) -> list[Field]:
    """Memory and speed of all plans of some grids, each under its terms of payment."""
    peaks = peaks_of(workload.shape, [grid for grid, _ in grids], stack)
    return [
        _build_field(workload, grid, terms, stack, evidence, each)
        for (grid, terms), each in zip(grids, peaks, strict=True)
    ]


def _build_field(
    workload: Workload, grid: Grid, terms: Terms, stack: Stack, evidence: Evidence, peaks: Peaks
) -> Field:
    settings = grid.settings()
    gpu = grid.instance.gpu
    veto = vetoed(evidence, workload.shape, settings, stack, gpu)
    step = step_time(
        workload.shape, settings, stack, gpu, fabric_of(grid.instance), evidence.factors
    )
    return Field(
        grid=grid,
        settings=settings,
        terms=terms,
        peaks=peaks,
        step=step,
        possible=np.broadcast_to(grid.valid() & ~veto, grid.shape),
        evidence=evidence,
    )


def flat(field: Field, values: object, index: NDArray[np.int64]) -> FloatArray:
    """Values that broadcast to the grid, at flat indices."""
    array: FloatArray = np.broadcast_to(np.asarray(values, dtype=np.float64), field.grid.shape)
    # Finding a few places costs less than writing out the whole, finding many costs more.
    if index.size * _GATHER_COST < array.size:
        return array[np.unravel_index(index, array.shape)]
    return array.reshape(-1)[index]


def offers(
    field: Field, workload: Workload, constraints: Constraints, speed_factor: float
) -> Offers:
    """The plans that fit, with their cost and hours."""
    index = np.flatnonzero(field.fits(constraints.max_oom_probability))
    return offers_at(field, workload, constraints, speed_factor, index)


def offers_at(
    field: Field,
    workload: Workload,
    constraints: Constraints,
    speed_factor: float,
    index: NDArray[np.int64],
) -> Offers:
    """Cost and hours of the plans at flat indices."""
    settings = field.settings
    step_s = flat(field, field.step.step_s, index) / speed_factor
    # Much depends on the instances and the micro batch alone, which are the last axis.
    size = index % field.grid.shape[-1]
    num_instances = np.ravel(settings.num_instances)[size]
    sequences = settings.micro_batch * settings.num_gpus * settings.accumulation_steps
    tokens_per_step = np.ravel(sequences)[size] * settings.seq_len
    columns = CostColumns(terms=field.terms)
    checkpoint = checkpoint_bytes(workload, settings)
    if constraints.objective == "most_tokens":
        counts = np.ravel(settings.num_instances)
        room_s = _room_s(columns, constraints, counts, checkpoint)[size]
        steps = np.floor(room_s / step_s)
        if workload.num_tokens is not None:
            steps = np.minimum(steps, np.ceil(workload.num_tokens / tokens_per_step))
    else:
        steps = np.ceil((workload.num_tokens or 0) / tokens_per_step)
    wall_s = columns.wall_s(steps * step_s, num_instances, checkpoint)
    return Offers(
        field=field,
        index=index,
        num_tokens=steps * tokens_per_step,
        num_instances=num_instances,
        hours=wall_s / HOUR_S,
        usd=columns.usd_of(wall_s, num_instances),
    )


def checkpoint_bytes(workload: Workload, settings: Settings) -> float:
    """Bytes of one checkpoint: fp32 weights and optimizer states."""
    return workload.shape.num_parameters * (WEIGHT_BYTES + float(np.max(settings.state_bytes)))


def _room_s(
    columns: CostColumns, constraints: Constraints, num_instances: FloatArray, checkpoint: float
) -> FloatArray:
    """Seconds of training that budget and deadline leave room for."""
    room = np.full(num_instances.shape, np.inf)
    if constraints.budget_usd is not None:
        room = columns.affordable_training_s(num_instances, constraints.budget_usd, checkpoint)
    if constraints.deadline_hours is not None:
        limit = columns.deadline_training_s(num_instances, constraints.deadline_hours, checkpoint)
        room = np.minimum(room, limit)
    return room
