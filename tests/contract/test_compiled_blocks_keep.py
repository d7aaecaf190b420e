"""What a compiled block of the trainer keeps for its backward is what the advisor's law says.

The trainer's own block goes through torch's ahead-of-time compiler, whose min-cut partitioner
decides which tensors the forward hands to the backward; they are counted, and compared in bytes per
token with advisor.activations.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from functorch.compile import (  # type: ignore[import-untyped]  # torch has no types for it
    make_boxed_func,
    min_cut_rematerialization_partition,
)
from torch import nn
from torch._dynamo.backends.common import aot_autograd
from torch._inductor.decomposition import select_decomp_table
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

from advisor.activations import block_bytes
from advisor.model import ModelShape
from advisor.plan import PRECISIONS
from advisor.settings import Settings
from advisor.stack import load_stacks
from trainer.kernels import PORTABLE
from trainer.model import Block
from trainer.parallel import per_operation
from trainer.precision import apply_precision
from trainer.settings import ModelSettings, PlanSettings

# No two of these are equal, so that a shape tells what a tensor is.
BATCH, LENGTH = 2, 160
HIDDEN, HEADS, KV_HEADS, HEAD_DIM, FFN = 256, 4, 2, 64, 704


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of block."""

    gated: bool = True
    qk_norm: bool = False
    norm: str = "rmsnorm"
    checkpointing: str = "none"
    precision: str = "bf16"


def block_of(kind: Kind) -> nn.Module:
    model = ModelSettings(
        hidden_size=HIDDEN,
        num_layers=1,
        num_heads=HEADS,
        num_kv_heads=KV_HEADS,
        head_dim=HEAD_DIM,
        ffn_size=FFN,
        vocab_size=1000,
        max_position=LENGTH,
        tied_embeddings=False,
        gated_mlp=kind.gated,
        activation="silu" if kind.gated else "gelu",
        norm=kind.norm,
        qk_norm=kind.qk_norm,
        positions="rope",
    )
    block: nn.Module = Block(model, PORTABLE).to(torch.bfloat16)
    for parameter in block.parameters():
        nn.init.normal_(parameter, std=0.02)
    plan = replace(PlanSettings(), precision=kind.precision, low_precision_emulation=True)
    apply_precision(block, plan)
    if kind.checkpointing == "selective":
        return checkpoint_wrapper(block, context_fn=per_operation, preserve_rng_state=False)
    return block


def kept_bytes(block: nn.Module) -> float:
    """Bytes per token that the compiled forward hands to the backward, weights apart."""
    kept: dict[str, int] = {}

    def forward(graph: Any, _: Sequence[Any]) -> Callable[..., Any]:
        output = next(node for node in graph.graph.nodes if node.op == "output")
        for node in output.args[0][1:]:
            value = node.meta.get("val")
            if isinstance(value, torch.Tensor) and is_activation(value):
                # Attention's output is kept in two views of one storage.
                source = storage_of(node)
                kept[source] = value.numel() * value.element_size()
        boxed: Callable[..., Any] = make_boxed_func(graph.forward)
        return boxed

    torch._dynamo.reset()
    compiled = torch.compile(
        block,
        backend=aot_autograd(
            fw_compiler=forward,
            bw_compiler=lambda graph, _: make_boxed_func(graph.forward),
            partition_fn=min_cut_rematerialization_partition,
            decompositions=select_decomp_table(),
        ),
        fullgraph=True,
    )
    x = torch.randn(BATCH, LENGTH, HIDDEN, dtype=torch.bfloat16, requires_grad=True)
    cos = torch.ones(LENGTH, HEAD_DIM, dtype=torch.bfloat16)
    compiled(x, cos, torch.zeros_like(cos), None).float().sum().backward()
    return sum(kept.values()) / (BATCH * LENGTH)


def is_activation(value: torch.Tensor) -> bool:
    """Whether a tensor is of each token: neither a weight nor the rotary table of the positions."""
    return bool(value.shape) and value.shape[0] in (BATCH, BATCH * LENGTH)


def storage_of(node: Any) -> str:
    """The name of the node whose storage a view shows."""
    views = ("view", "permute", "transpose", "alias", "_unsafe_view", "reshape", "detach")
    while node.op == "call_function" and any(name in str(node.target) for name in views):
        node = node.all_input_nodes[0]
    return str(node.name)


def settings_of(kind: Kind) -> Settings:
    selective = float(kind.checkpointing == "selective")
    return Settings(
        micro_batch=float(BATCH),
        seq_len=float(LENGTH),
        num_gpus=1.0,
        gpus_per_instance=1.0,
        shard_degree=1.0,
        replica_degree=1.0,
        accumulation_steps=1.0,
        defer_sync=0.0,
        reshard=1.0,
        loss_chunks=1.0,
        kept_fraction=1.0 - selective,
        op_fraction=selective,
        full_fraction=0.0,
        precision=PRECISIONS.index("fp8" if kind.precision == "fp8" else "bf16"),
        state_bytes=8.0,
        compiled=1.0,
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "kind",
    [
        Kind(),
        Kind(qk_norm=True),
        Kind(gated=False, norm="layernorm"),
        Kind(checkpointing="selective"),
        Kind(checkpointing="selective", gated=False, norm="layernorm"),
        Kind(precision="fp8"),
    ],
    ids=str,
)
def test_a_compiled_block_keeps_what_the_law_says(kind: Kind) -> None:
    shape = ModelShape(
        name="block",
        family="llama",
        hidden_size=HIDDEN,
        num_layers=1,
        num_heads=HEADS,
        num_kv_heads=KV_HEADS,
        head_dim=HEAD_DIM,
        ffn_size=FFN,
        vocab_size=1000,
        max_position=LENGTH,
        gated_mlp=kind.gated,
        qk_norm=kind.qk_norm,
    )
    law = block_bytes(shape, settings_of(kind), load_stacks()["shardwise"])
    expected = law.per_op if kind.checkpointing == "selective" else law.kept
    # Roots of the norms' means are a few bytes per token, which the law leaves out.
    assert kept_bytes(block_of(kind)) == pytest.approx(float(expected), rel=0.005)
