"""The AWS Blackwell guide's only three measured bars, in the stack of its own example program.

Source: AWS Machine Learning Blog, "Optimize model training on Amazon SageMaker AI with NVIDIA
Blackwell", June 2026, figure 1: 1B parameters, MXFP8, sequence 8192, 8 GPUs, decimal GB.
"""

import pytest
from guide_document import BARS_GB, GUIDE_SHAPE

from advisor.memory import estimate_memory
from advisor.plan import PRECISIONS
from advisor.settings import STATE_BYTES, Settings
from advisor.stack import load_stacks


@pytest.mark.parametrize(("way", "micro_batch"), BARS_GB)
def test_guide_bar_within_five_percent(way: str, micro_batch: int) -> None:
    checkpointed = float(way == "full")
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
    assert float(memory.active_bytes) / 1e9 == pytest.approx(BARS_GB[way, micro_batch], rel=0.05)
