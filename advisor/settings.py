"""Settings: what the memory and throughput laws read of one plan, or of many at once.

Each field is a number or an array; arrays broadcast against one another, so a search over a product
of choices computes each term only over the choices that it depends on.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from advisor.plan import PRECISIONS, Optimizer, Plan

FloatArray: TypeAlias = NDArray[np.float64]
Number: TypeAlias = float | FloatArray
Code: TypeAlias = int | NDArray[np.int64]

# Bytes of optimizer state (m and v) per parameter. 8-bit states keep one fp32 scale per block of
# 256 elements for each of m and v: 2 · (1 + 4/256), torchao.optim's block size.
STATE_BYTES: dict[Optimizer, float] = {
    "adamw": 8.0,
    "adamw_bf16": 4.0,
    "adamw_8bit": 2.0 * (1.0 + 4.0 / 256.0),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Numeric view of Plan (one, or many as broadcastable arrays).

    micro_batch: sequences per GPU per forward. seq_len: tokens per sequence, the same in all.
    kept_fraction, op_fraction, full_fraction: share of the blocks that keep everything, that keep
        matrix products and attention only, and that keep nothing but their input. They sum to 1.
    precision: index into plan.PRECISIONS.
    state_bytes: optimizer state per parameter. Flags are 0.0 or 1.0.
    """

    micro_batch: Number
    seq_len: float
    num_gpus: Number
    gpus_per_instance: Number
    shard_degree: Number
    replica_degree: Number
    accumulation_steps: Number
    defer_sync: Number
    reshard: Number
    loss_chunks: Number
    kept_fraction: Number
    op_fraction: Number
    full_fraction: Number
    precision: Code
    state_bytes: Number
    compiled: Number

    @property
    def tokens(self) -> Number:
        """Tokens per GPU per forward."""
        return self.micro_batch * self.seq_len

    @property
    def num_instances(self) -> Number:
        return self.num_gpus / self.gpus_per_instance


def checkpointing_fractions(mode: str, every: int) -> tuple[float, float, float]:
    """(kept, per-op, full) shares of the blocks for a checkpointing mode."""
    if mode == "none":
        return 1.0, 0.0, 0.0
    if mode == "full":
        return 0.0, 0.0, 1.0
    if every > 0:
        return 1.0 - 1.0 / every, 0.0, 1.0 / every
    return 0.0, 1.0, 0.0


def settings_of(plan: Plan) -> Settings:
    """The numeric view of one plan."""
    kept, per_op, full = checkpointing_fractions(
        plan.activation_checkpointing, plan.checkpoint_every
    )
    return Settings(
        micro_batch=float(plan.micro_batch),
        seq_len=float(plan.seq_len),
        num_gpus=float(plan.num_gpus),
        gpus_per_instance=float(plan.gpus_per_instance),
        shard_degree=float(plan.shard_degree),
        replica_degree=float(plan.replica_degree),
        accumulation_steps=float(plan.accumulation_steps),
        defer_sync=float(plan.gradient_sync == "last" and plan.accumulation_steps > 1),
        reshard=float(plan.reshard_after_forward),
        loss_chunks=float(plan.loss_chunks),
        kept_fraction=kept,
        op_fraction=per_op,
        full_fraction=full,
        precision=PRECISIONS.index(plan.precision),
        state_bytes=STATE_BYTES[plan.optimizer],
        compiled=float(plan.compile),
    )


def total(terms: Mapping[str, Number]) -> Number:
    """Sum of named terms (arrays broadcast)."""
    result: Number = 0.0
    for value in terms.values():
        result = result + value
    return result
