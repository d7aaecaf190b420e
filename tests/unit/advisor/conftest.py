"""A stored result to change: Llama 3.1 8B on one machine of eight H100."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from advisor.result import Result

RESULT = Result(
    id="mine-1",
    source_url="https://example.org/run",
    framework="fsdp2",
    gpu="H100-80GB-SXM",
    gpus_total=8,
    nodes=1,
    model_name="llama3-8b",
    hidden=4096,
    layers=32,
    heads=32,
    kv_heads=8,
    ffn=14336,
    vocab=128256,
    mlp_type="swiglu",
    tied_embeddings=False,
    seq_len=8192,
    micro_batch_per_gpu=1.0,
    param_dtype="fp32",
    compute_dtype="bf16",
    optimizer="adamw (fp32 states)",
    activation_checkpointing="selective",
    sharding="full",
    compile=True,
    tokens_per_s_per_gpu=5760.0,
    peak_mem_gib=47.65,
    peak_mem_kind="reserved",
)


@pytest.fixture
def result_with() -> Callable[..., Result]:
    """The result with some columns changed."""

    def changed(**columns: Any) -> Result:
        return replace(RESULT, **columns)

    return changed
