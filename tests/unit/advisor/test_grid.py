"""The grid: its axes, its validity and the way back from an index to a plan."""

import numpy as np
import pytest

from advisor.catalog import find_instance
from advisor.grid import MAX_BATCH_RATIO, MICRO_BATCHES, Grid, build_grid
from advisor.model import ModelShape
from advisor.settings import settings_of
from advisor.workload import Pins, Workload

SHAPE = ModelShape(
    name="drawn",
    family="llama",
    hidden_size=2048,
    num_layers=16,
    num_heads=16,
    num_kv_heads=4,
    head_dim=128,
    ffn_size=8192,
    vocab_size=32000,
    max_position=8192,
)
WORKLOAD = Workload(
    shape=SHAPE, seq_len=2048, num_tokens=10**9, global_batch_tokens=2**20, training="pretrain"
)


def grid_of(pins: Pins | None = None, instance: str = "p6-b200.48xlarge") -> Grid:
    return build_grid(WORKLOAD, pins or Pins(), find_instance(instance), (1, 2, 4))


def test_columns_are_the_settings_of_each_plan() -> None:
    grid = grid_of()
    settings = grid.settings()
    rng = np.random.default_rng(7)
    for index in rng.choice(grid.size, size=60, replace=False):
        one = settings_of(grid.plan(int(index)))
        for name in ("shard_degree", "accumulation_steps", "kept_fraction", "precision", "reshard"):
            column = np.broadcast_to(getattr(settings, name), grid.shape).ravel()
            assert column[index] == pytest.approx(getattr(one, name)), name


def test_valid_plans_are_near_the_batch_asked_for() -> None:
    grid = grid_of()
    valid = np.flatnonzero(np.broadcast_to(grid.valid(), grid.shape))
    assert valid.size > 0
    for index in valid[:: max(valid.size // 200, 1)]:
        plan = grid.plan(int(index))
        ratio = plan.tokens_per_step / WORKLOAD.global_batch_tokens
        assert 1 / MAX_BATCH_RATIO <= ratio <= MAX_BATCH_RATIO
        assert plan.shard_degree * plan.replica_degree == plan.num_gpus


def test_valid_plans_are_all_different() -> None:
    grid = grid_of()
    valid = np.flatnonzero(np.broadcast_to(grid.valid(), grid.shape))
    plans = {grid.plan(int(index)) for index in valid}
    assert len(plans) == valid.size


def test_pins_narrow_an_axis() -> None:
    pins = Pins(precision="fp8", micro_batch=5, activation_checkpointing="full", sharding="full")
    grid = grid_of(pins)
    plan = grid.plan(0)
    assert (plan.precision, plan.micro_batch, plan.activation_checkpointing) == ("fp8", 5, "full")
    chosen = (grid.shardings, grid.checkpointings, grid.precisions)
    assert [len(choices) for choices in chosen] == [1, 1, 1]
    assert {micro_batch for _, micro_batch, _ in grid.sizes} == {5}


def test_precisions_are_those_of_the_gpu() -> None:
    assert grid_of(instance="p4d.24xlarge").precisions == ("bf16",)
    assert grid_of(instance="p5.48xlarge").precisions == ("bf16", "fp8")
    assert grid_of().precisions == ("bf16", "fp8", "mxfp8")
    assert grid_of(Pins(precision="nvfp4")).precisions == ("nvfp4",)


def test_sizes_are_all_those_near_the_batch_asked_for() -> None:
    grid = grid_of()
    unit = 8 * WORKLOAD.seq_len
    for count in (1, 2, 4):
        for micro_batch in MICRO_BATCHES:
            tokens = unit * count * micro_batch
            steps = max(round(WORKLOAD.global_batch_tokens / tokens), 1)
            ratio = steps * tokens / WORKLOAD.global_batch_tokens
            near = 1 / MAX_BATCH_RATIO <= ratio <= MAX_BATCH_RATIO
            assert ((count, micro_batch, steps) in grid.sizes) == near
