"""Peaks: live and reserved bytes of every plan of a grid, computed once for like instance types."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from advisor.grid import AXES, Grid
from advisor.memory import estimate_memory
from advisor.model import ModelShape
from advisor.settings import FloatArray
from advisor.stack import Stack

_PRECISION = AXES.index("precision")


@dataclass(frozen=True, slots=True, kw_only=True)
class Peaks:
    """Peak bytes of one GPU, live and held by the allocator; arrays that broadcast to the grid."""

    active_bytes: FloatArray
    reserved_bytes: FloatArray

    def of_precisions(self, places: Sequence[int]) -> "Peaks":
        """The plans with some of the precisions, by their places on the axis."""
        return Peaks(
            active_bytes=_take(self.active_bytes, places),
            reserved_bytes=_take(self.reserved_bytes, places),
        )


def peaks_of(shape: ModelShape, grids: Sequence[Grid], stack: Stack) -> list[Peaks]:
    """Peaks for each of some grids of one workload.

    A plan's bytes do not depend on the GPU: instance types with as many GPUs and the same counts
    share them, each with the precisions that it has.
    """
    richest: dict[tuple[object, ...], Grid] = {}
    for grid in grids:
        rival = richest.setdefault(_key(grid), grid)
        if set(grid.precisions) > set(rival.precisions):
            richest[_key(grid)] = grid
    known = {key: _peaks(shape, grid, stack) for key, grid in richest.items()}
    found = []
    for grid in grids:
        source = richest[_key(grid)].precisions
        if set(grid.precisions) <= set(source):
            places = [source.index(name) for name in grid.precisions]
            found.append(known[_key(grid)].of_precisions(places))
        else:
            found.append(_peaks(shape, grid, stack))
    return found


def _key(grid: Grid) -> tuple[object, ...]:
    return grid.instance.num_gpus, grid.sizes


def _peaks(shape: ModelShape, grid: Grid, stack: Stack) -> Peaks:
    memory = estimate_memory(shape, grid.settings(), stack)
    return Peaks(
        active_bytes=np.asarray(memory.active_bytes),
        reserved_bytes=np.asarray(memory.reserved_bytes),
    )


def _take(array: FloatArray, places: Sequence[int]) -> FloatArray:
    """Some places of the axis of precisions; an array that does not depend on it stays."""
    if array.ndim <= _PRECISION or array.shape[_PRECISION] in (1, len(places)):
        return array
    return np.take(array, places, axis=_PRECISION)
