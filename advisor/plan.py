"""Plan: every decision that the advisor takes and the trainer obeys."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

Precision = Literal["bf16", "fp8", "mxfp8", "nvfp4"]
Checkpointing = Literal["none", "selective", "full"]
Optimizer = Literal["adamw", "adamw_bf16", "adamw_8bit"]
GradientSync = Literal["each", "last"]

PRECISIONS: tuple[Precision, ...] = ("bf16", "fp8", "mxfp8", "nvfp4")
CHECKPOINTINGS: tuple[Checkpointing, ...] = ("none", "selective", "full")
OPTIMIZERS: tuple[Optimizer, ...] = ("adamw", "adamw_bf16", "adamw_8bit")
GRADIENT_SYNCS: tuple[GradientSync, ...] = ("each", "last")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Every setting of a run.

    precision: compute format of the linear layers in the blocks; weights stay fp32 (sharded).
    activation_checkpointing: "selective" means per-op when `checkpoint_every` is 0 (matrix products
        (every second) and attention are kept, the rest is recomputed), and otherwise that each
        `checkpoint_every`-th block is checkpointed whole and the others keep everything.
    micro_batch: sequences per GPU per forward.
    shard_degree: GPUs that one copy of the parameters is split over; replica_degree: copies (HSDP).
    reshard_after_forward: False keeps a block's gathered parameters until its backward.
    gradient_sync: "each" reduce-scatters in every micro step; "last" only in the last one, at the
        price of a whole unsharded fp32 gradient.
    loss_chunks: 1 computes the loss on all logits at once; n > 1 on n slices of the tokens.
    optimizer: AdamW with fp32, bf16 or 8-bit states (m and v); the fp32 weights are their own.
    """

    instance_type: str
    num_instances: int
    gpus_per_instance: int
    precision: Precision
    activation_checkpointing: Checkpointing
    checkpoint_every: int = 0
    micro_batch: int
    seq_len: int
    accumulation_steps: int = 1
    gradient_sync: GradientSync = "each"
    shard_degree: int
    replica_degree: int = 1
    reshard_after_forward: bool = True
    loss_chunks: int = 1
    optimizer: Optimizer = "adamw"
    compile: bool = True

    @property
    def num_gpus(self) -> int:
        return self.num_instances * self.gpus_per_instance

    @property
    def tokens_per_micro_step(self) -> int:
        """Tokens per GPU per forward."""
        return self.micro_batch * self.seq_len

    @property
    def tokens_per_step(self) -> int:
        """Tokens per optimizer update over all GPUs."""
        return self.tokens_per_micro_step * self.accumulation_steps * self.num_gpus


def plan_from(settings: Mapping[str, Any]) -> Plan:
    """The plan of a candidate's settings, which also have figures that follow from it."""
    return Plan(**{each.name: settings[each.name] for each in fields(Plan)})
