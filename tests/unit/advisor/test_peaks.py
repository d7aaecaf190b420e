"""Peaks: instance types that share them get what each would get alone."""

import numpy as np

from advisor.catalog import find_instance
from advisor.grid import build_grid
from advisor.memory import estimate_memory
from advisor.model_size import shape_from_size
from advisor.peaks import peaks_of
from advisor.stack import load_stacks
from advisor.workload import Pins, Workload

SHAPE = shape_from_size(3).shape
WORKLOAD = Workload(
    shape=SHAPE, seq_len=2048, num_tokens=10**9, global_batch_tokens=2**20, training="pretrain"
)
STACK = load_stacks()["shardwise"]


def test_shared_peaks_are_those_of_each_grid_alone() -> None:
    names = ("p4d.24xlarge", "p6-b200.48xlarge", "p5.48xlarge", "p6e-gb200.36xlarge")
    grids = [build_grid(WORKLOAD, Pins(), find_instance(name), (1, 2, 4)) for name in names]
    for grid, peaks in zip(grids, peaks_of(SHAPE, grids, STACK), strict=True):
        alone = estimate_memory(SHAPE, grid.settings(), STACK)
        for shared, own in (
            (peaks.active_bytes, alone.active_bytes),
            (peaks.reserved_bytes, alone.reserved_bytes),
        ):
            np.testing.assert_array_equal(
                np.broadcast_to(shared, grid.shape), np.broadcast_to(own, grid.shape)
            )
