"""Stack: the facts of a training program that the memory and throughput laws depend on."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from importlib import resources
from typing import Any, Literal

from advisor.kernels import Attention

Engine = Literal["fsdp2", "fsdp1", "zero", "ddp"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """One program, or one period of it, whose published runs are predicted with its own facts.

    engine: how parameters are sharded and where its buffers live.
    weight_bytes: per parameter as kept between steps; master_bytes: a further fp32 copy.
    grad_bytes: per parameter of the (sharded) gradient; reduce_bytes: per element of a reduction.
    gather_bytes: per parameter as gathered for the compute.
    logit_bytes: bytes per logit alive at the worst instant of the loss when nothing is chunked;
        compiled_logit_bytes: the same where the loss is compiled with the model.
    built_in_loss_chunks: slices that the program always takes the loss in; 0 leaves it to the plan.
    chunks_cover_head: slices include the head's product; otherwise the bf16 logits and their
        gradient stay whole (4 bytes per logit) and only the fp32 part is sliced.
    head_reduced_first: a sliced loss runs the head's backward, reduction included, by itself;
        otherwise the reduction is under way when the backward of the blocks begins.
    sliced_logit_bytes: bytes per logit of one slice, where slices include the head's product.
    slice_gradient_bytes: per element of the hidden states' gradient that a sliced loss gathers.
    eager_fp8_bytes: per input element of an eager float8 linear that it keeps beside the bf16 one.
    full_precision_norms: norms keep an fp32 copy of their input when not compiled.
    block_extra_bytes: per token and hidden element that a block keeps beside the usual (dropout
        masks and sums).
    expand_kv: grouped keys and values are repeated to all heads before attention.
    root_is_one_unit: embedding and head are gathered together.
    has_embeddings: False for a bare stack of blocks without embedding, head and loss.
    fp8_gather: fp8 runs gather the blocks' weights as fp8.
    optimizer_temporaries: bytes per (sharded) parameter that a step of a foreach optimizer takes.
    expandable_segments: the allocator grows its segments, so little is lost to fragmentation.
    default_checkpointing: what an unstated checkpointing means in this program, if its recipe says.
    default_compile: what an unstated compilation means.
    attention: throughput: its kernel, flash1 (and Triton's of its time), flash2
        or vendor (cuDNN, FlashAttention 3 and 4).
    optimized: throughput: kernels are fused by the framework even when nothing is compiled.
    fused_casts: throughput: quantisation runs in kernels of its own even when nothing is compiled.
    nvfp4_bf16_fraction: throughput: share of the blocks that an nvfp4 run keeps in bf16.
    """

    name: str
    description: str
    source: str
    engine: Engine
    weight_bytes: float
    master_bytes: float
    grad_bytes: float
    reduce_bytes: float
    gather_bytes: float
    logit_bytes: float
    compiled_logit_bytes: float
    built_in_loss_chunks: float
    chunks_cover_head: bool
    head_reduced_first: bool
    sliced_logit_bytes: float
    slice_gradient_bytes: float
    eager_fp8_bytes: float
    full_precision_norms: bool
    block_extra_bytes: float
    expand_kv: bool
    root_is_one_unit: bool
    has_embeddings: bool
    fp8_gather: bool
    optimizer_temporaries: float
    expandable_segments: bool
    default_checkpointing: str
    default_compile: bool
    attention: Attention
    optimized: bool
    fused_casts: bool
    nvfp4_bf16_fraction: float


@cache
def load_stacks() -> Mapping[str, Stack]:
    """The stacks in data/stacks.toml by name. Raises KeyError or TypeError if the file is wrong."""
    text = resources.files("advisor").joinpath("data/stacks.toml").read_text(encoding="utf-8")
    return {name: _stack(name, entry) for name, entry in tomllib.loads(text).items()}


def _stack(name: str, entry: dict[str, Any]) -> Stack:
    wanted = {field.name for field in fields(Stack)} - {"name"}
    if set(entry) != wanted:
        raise KeyError(f"stacks.toml [{name}]: {sorted(set(entry) ^ wanted)} missing or unknown")
    return Stack(name=name, **entry)
