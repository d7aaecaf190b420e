"""Laws of the throughput model that must hold for every plan and shape."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.catalog import load_catalog
from advisor.hardware import Gpu
from advisor.kernels import peak_of
from advisor.model import ModelShape
from advisor.plan import PRECISIONS
from advisor.settings import Settings
from advisor.stack import load_stacks
from advisor.throughput import Fabric, StepTime, step_time
from advisor.throughput_factors import load_factors

GPUS = ("A100-80GB", "H100-80GB", "H200-141GB", "B200", "B300", "GB200")
FABRIC = Fabric(intra_bytes_per_s=450e9, inter_bytes_per_s=50e9)


@st.composite
def drawn_shapes(draw: st.DrawFn) -> ModelShape:
    kv_heads = draw(st.sampled_from([1, 4, 8]))
    heads = kv_heads * draw(st.sampled_from([1, 4, 8]))
    return ModelShape(
        name="drawn",
        family="llama",
        hidden_size=heads * 128,
        num_layers=draw(st.integers(1, 96)),
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=128,
        ffn_size=draw(st.integers(1, 64)) * 512,
        vocab_size=draw(st.integers(1000, 262144)),
        max_position=65536,
        gated_mlp=draw(st.booleans()),
    )


@st.composite
def drawn_settings(draw: st.DrawFn) -> Settings:
    gpus = draw(st.sampled_from([1, 8, 16, 64, 512]))
    shards = draw(st.sampled_from([n for n in (1, 8, gpus) if n <= gpus]))
    kept, per_op = draw(st.sampled_from([(1.0, 0.0), (0.5, 0.0), (0.0, 1.0), (0.0, 0.0)]))
    return Settings(
        micro_batch=float(draw(st.integers(1, 64))),
        seq_len=float(draw(st.sampled_from([128, 2048, 8192, 65536]))),
        num_gpus=float(gpus),
        gpus_per_instance=float(min(gpus, 8)),
        shard_degree=float(shards),
        replica_degree=float(gpus / shards),
        accumulation_steps=float(draw(st.integers(1, 8))),
        defer_sync=float(draw(st.booleans())),
        reshard=float(draw(st.booleans())),
        loss_chunks=draw(st.sampled_from([1.0, 8.0])),
        kept_fraction=kept,
        op_fraction=per_op,
        full_fraction=1.0 - kept - per_op,
        precision=0,
        state_bytes=8.0,
        compiled=float(draw(st.booleans())),
    )


def timed(
    shape: ModelShape, plan: Settings, gpu: Gpu, stack: str = "shardwise", fabric: Fabric = FABRIC
) -> StepTime:
    return step_time(shape, plan, load_stacks()[stack], gpu, fabric, load_factors())


def seconds(
    shape: ModelShape, plan: Settings, gpu: Gpu, stack: str = "shardwise", fabric: Fabric = FABRIC
) -> float:
    return float(timed(shape, plan, gpu, stack, fabric).step_s)


def busy(shape: ModelShape, plan: Settings, gpu: Gpu) -> float:
    """Seconds without communication."""
    alone = replace(plan, num_gpus=1.0, gpus_per_instance=1.0, shard_degree=1.0, replica_degree=1.0)
    return seconds(shape, alone, gpu)


gpus = st.sampled_from(GPUS).map(load_catalog().gpu)
stacks = st.sampled_from(sorted(load_stacks()))


@given(drawn_shapes(), drawn_settings(), gpus, stacks)
@settings(max_examples=80, deadline=None)
def test_parts_sum_to_the_whole(shape: ModelShape, plan: Settings, gpu: Gpu, stack: str) -> None:
    found = timed(shape, plan, gpu, stack)
    parts = [float(value) for value in found.terms.values()]
    assert min(parts) >= 0.0
    assert sum(parts) == pytest.approx(float(found.step_s))


@given(drawn_shapes(), drawn_settings(), gpus, st.integers(0, 3), stacks)
@settings(max_examples=120, deadline=None)
def test_no_step_beats_the_peak(
    shape: ModelShape, plan: Settings, gpu: Gpu, code: int, stack: str
) -> None:
    if peak_of(gpu, PRECISIONS[code]) == 0.0:
        code = 0
    plan = replace(plan, precision=code)
    peak = max(peak_of(gpu, name) for name in PRECISIONS)
    flops = 6.0 * shape.num_layers * shape.block_matmul_parameters
    tokens = float(plan.tokens * plan.accumulation_steps)
    assert seconds(shape, plan, gpu, stack) >= flops * tokens / peak
    # Nor the memory's bandwidth: the sharded states are read and written.
    moved = 2.0 * float(plan.state_bytes) * shape.num_parameters / float(plan.num_gpus)
    assert seconds(shape, plan, gpu, stack) >= moved / gpu.hbm_bytes_per_s


@given(drawn_shapes(), drawn_settings(), gpus)
@settings(max_examples=80, deadline=None)
def test_more_gpus_never_do_less_in_all(shape: ModelShape, plan: Settings, gpu: Gpu) -> None:
    plan = replace(plan, num_gpus=8.0, gpus_per_instance=8.0, shard_degree=8.0, replica_degree=1.0)
    last = 0.0
    for machines in (1.0, 2.0, 4.0, 8.0, 16.0):
        more = replace(plan, num_gpus=8.0 * machines, shard_degree=8.0, replica_degree=machines)
        rate = float(timed(shape, more, gpu).tokens_per_s)
        assert rate >= last
        last = rate


@given(drawn_shapes(), drawn_settings(), gpus, st.floats(1.0, 4.0))
@settings(max_examples=80, deadline=None)
def test_a_faster_gpu_is_never_slower(
    shape: ModelShape, plan: Settings, gpu: Gpu, factor: float
) -> None:
    now = seconds(shape, plan, gpu)
    peaks = {name: factor * value for name, value in gpu.peak_flops.items()}
    assert seconds(shape, plan, replace(gpu, peak_flops=peaks)) <= now * (1 + 1e-9)
    wider = replace(gpu, hbm_bytes_per_s=factor * gpu.hbm_bytes_per_s)
    assert seconds(shape, plan, wider) <= now * (1 + 1e-9)
    faster = Fabric(
        intra_bytes_per_s=factor * FABRIC.intra_bytes_per_s,
        inter_bytes_per_s=factor * FABRIC.inter_bytes_per_s,
    )
    assert seconds(shape, plan, gpu, fabric=faster) <= now * (1 + 1e-9)


@given(drawn_shapes(), drawn_settings(), gpus, stacks)
@settings(max_examples=80, deadline=None)
def test_recomputation_costs_at_most_a_forward(
    shape: ModelShape, plan: Settings, gpu: Gpu, stack: str
) -> None:
    kept = replace(plan, kept_fraction=1.0, op_fraction=0.0, full_fraction=0.0)
    some = replace(plan, kept_fraction=0.0, op_fraction=1.0, full_fraction=0.0)
    full = replace(plan, kept_fraction=0.0, op_fraction=0.0, full_fraction=1.0)
    base = seconds(shape, kept, gpu, stack)
    assert base * (1 - 1e-9) <= seconds(shape, some, gpu, stack) <= 1.4 * base
    assert base * (1 - 1e-9) <= seconds(shape, full, gpu, stack) <= 1.4 * base


@given(drawn_shapes(), drawn_settings(), gpus)
@settings(max_examples=60, deadline=None)
def test_a_longer_sequence_costs_more_per_token(
    shape: ModelShape, plan: Settings, gpu: Gpu
) -> None:
    plan = replace(plan, micro_batch=2.0, compiled=1.0)
    longer = replace(plan, micro_batch=1.0, seq_len=2.0 * plan.seq_len)
    assert busy(shape, longer, gpu) >= busy(shape, plan, gpu) * (1 - 1e-9)
