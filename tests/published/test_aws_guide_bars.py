"""The AWS Blackwell guide's only three measured bars, in the stack of its own example program.

Source: AWS Machine Learning Blog, "Optimize model training on Amazon SageMaker AI with NVIDIA
Blackwell", June 2026, figure 1: 1B parameters, MXFP8, sequence 8192, 8 GPUs, decimal GB.
"""

import pytest

from advisor.memory import estimate_memory
from advisor.model import ModelShape
from advisor.plan import PRECISIONS
from advisor.settings import STATE_BYTES, Settings
from advisor.stack import load_stacks

# 24 layers of 10·hidden² parameters: what the bars' slopes and intercept fit (1.007B).
GUIDE_SHAPE = ModelShape(
    name="transformer-engine-1b",
    family="transformer-engine",
    hidden_size=2048,
    num_layers=24,
    num_heads=16,
    num_kv_heads=16,
    head_dim=128,
    ffn_size=6144,
    vocab_size=1,
    max_position=8192,
    gated_mlp=False,
)


@pytest.mark.parametrize(
    ("micro_batch", "checkpointed", "measured_gb"), [(1, 0.0, 15.5), (1, 1.0, 2.3), (16, 1.0, 22.8)]
)
def test_guide_bar_within_five_percent(
    micro_batch: int, checkpointed: float, measured_gb: float
) -> None:
    settings = Settings(
        micro_batch=float(micro_batch),
        seq_len=8192.0,
        num_gpus=8.0,
        gpus_per_instance=8.0,
        shard_degree=8.0,
        replica_degree=1.0,
        accumulation_steps=1.0,
        defer_sync=0.0,
        reshard=1.0,
        loss_chunks=1.0,
        kept_fraction=1.0 - checkpointed,
        op_fraction=0.0,
        full_fraction=checkpointed,
        precision=PRECISIONS.index("mxfp8"),
        state_bytes=STATE_BYTES["adamw_bf16"],
        compiled=0.0,
    )
    memory = estimate_memory(GUIDE_SHAPE, settings, load_stacks()["transformer-engine-example"])
    assert float(memory.active_bytes) / 1e9 == pytest.approx(measured_gb, rel=0.05)
