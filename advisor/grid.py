"""Grid: every plan that the search considers on one instance type, as axes that broadcast.

Axis order is fixed, choices run from the plainest to the most intricate, and a flat index names a
plan, so equal plans tie in favour of the plainer one and the same input gives the same answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.hardware import Instance
from advisor.plan import PRECISIONS, Checkpointing, GradientSync, Optimizer, Plan, Precision
from advisor.settings import STATE_BYTES, FloatArray, Settings, checkpointing_fractions
from advisor.workload import Pins, Sharding, Workload

# (mode, every): per-op selective, then every 4th and every 2nd block, then all blocks.
CHECKPOINTINGS: tuple[tuple[Checkpointing, int], ...] = (
    ("none", 0),
    ("selective", 0),
    ("selective", 4),
    ("selective", 2),
    ("full", 0),
)
MICRO_BATCHES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
SHARDINGS: tuple[Sharding, ...] = ("full", "hybrid", "none")
LOSS_CHUNKS = (1, 8)
SYNCS: tuple[GradientSync, ...] = ("each", "last")
# Formats that are not offered unasked: NVFP4 training needs a recipe of its own to converge
# (NVIDIA, "Pretraining large language models with NVFP4", arXiv:2509.25149).
ON_REQUEST: tuple[Precision, ...] = ("nvfp4",)
# How far a plan's own global batch may be from the one asked for, either way.
MAX_BATCH_RATIO = 1.5

AXES = (
    "num_instances",
    "sharding",
    "activation_checkpointing",
    "precision",
    "micro_batch",
    "loss_chunks",
    "reshard_after_forward",
    "gradient_sync",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The choices along each axis of AXES, for one instance type."""

    instance: Instance
    seq_len: int
    global_batch_tokens: int
    optimizer: Optimizer
    compile: bool
    num_instances: tuple[int, ...]
    shardings: tuple[Sharding, ...]
    checkpointings: tuple[tuple[Checkpointing, int], ...]
    precisions: tuple[Precision, ...]
    micro_batches: tuple[int, ...]
    loss_chunks: tuple[int, ...]
    reshards: tuple[bool, ...]
    syncs: tuple[GradientSync, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(choices) for choices in self._choices)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))

    @property
    def _choices(self) -> tuple[Sequence[object], ...]:
        return (
            self.num_instances,
            self.shardings,
            self.checkpointings,
            self.precisions,
            self.micro_batches,
            self.loss_chunks,
            self.reshards,
            self.syncs,
        )

    def along(self, axis: str, values: Sequence[float]) -> FloatArray:
        """Values along one axis, shaped to broadcast against the others."""
        shape = [1] * len(AXES)
        shape[AXES.index(axis)] = len(values)
        return np.asarray(values, dtype=np.float64).reshape(shape)

    def num_gpus(self) -> FloatArray:
        return self.along("num_instances", [n * self.instance.num_gpus for n in self.num_instances])

    def shard_degrees(self) -> FloatArray:
        """GPUs per copy of the parameters, shaped (num_instances, sharding, 1, …)."""
        per_instance = self.instance.num_gpus
        rows = [
            [
                {"full": n * per_instance, "hybrid": per_instance, "none": 1}[sharding]
                for sharding in self.shardings
            ]
            for n in self.num_instances
        ]
        shape = (len(self.num_instances), len(self.shardings), *[1] * (len(AXES) - 2))
        return np.asarray(rows, dtype=np.float64).reshape(shape)

    def accumulation_steps(self) -> FloatArray:
        """Micro steps whose batch is nearest to the one asked for, shaped (instances, …, micro)."""
        unit = self.num_gpus() * self.along("micro_batch", self.micro_batches) * self.seq_len
        return np.maximum(np.rint(self.global_batch_tokens / unit), 1.0)

    def settings(self) -> Settings:
        """The numeric view of all plans."""
        fractions = [checkpointing_fractions(mode, every) for mode, every in self.checkpointings]
        kept, per_op, full = (
            self.along("activation_checkpointing", [f[i] for f in fractions]) for i in range(3)
        )
        codes = self.along("precision", [PRECISIONS.index(name) for name in self.precisions])
        steps = self.accumulation_steps()
        deferred = self.along("gradient_sync", [sync == "last" for sync in self.syncs])
        return Settings(
            micro_batch=self.along("micro_batch", self.micro_batches),
            seq_len=float(self.seq_len),
            num_gpus=self.num_gpus(),
            gpus_per_instance=float(self.instance.num_gpus),
            shard_degree=self.shard_degrees(),
            replica_degree=self.num_gpus() / self.shard_degrees(),
            accumulation_steps=steps,
            defer_sync=deferred * (steps > 1),
            reshard=self.along("reshard_after_forward", self.reshards),
            loss_chunks=self.along("loss_chunks", self.loss_chunks),
            kept_fraction=kept,
            op_fraction=per_op,
            full_fraction=full,
            precision=codes.astype(np.int64),
            state_bytes=STATE_BYTES[self.optimizer],
            compiled=float(self.compile),
        )

    def valid(self) -> NDArray[np.bool_]:
        """Plans that mean something of their own and keep near the global batch asked for."""
        steps = self.accumulation_steps()
        unit = self.num_gpus() * self.along("micro_batch", self.micro_batches) * self.seq_len
        ratio = steps * unit / self.global_batch_tokens
        near = (ratio <= MAX_BATCH_RATIO) & (ratio >= 1 / MAX_BATCH_RATIO)
        several = self.along("num_instances", self.num_instances) > 1
        hybrid = self.along("sharding", [name == "hybrid" for name in self.shardings]) > 0
        unsharded = self.along("sharding", [name == "none" for name in self.shardings]) > 0
        kept = self.along("reshard_after_forward", self.reshards) < 1
        deferred = self.along("gradient_sync", [sync == "last" for sync in self.syncs]) > 0
        # HSDP on one instance is full sharding; with one shard there is nothing to gather again;
        # deferring needs several micro steps.
        return near & (several | ~hybrid) & ~(unsharded & kept) & ((steps > 1) | ~deferred)

    def plan(self, flat_index: int) -> Plan:
        """The plan of a flat index into an array of `shape`."""
        at = np.unravel_index(flat_index, self.shape)
        count, sharding, checkpointing, precision, micro, chunks, reshard, sync = (
            int(i) for i in at
        )
        mode, every = self.checkpointings[checkpointing]
        num_gpus = self.num_instances[count] * self.instance.num_gpus
        shards = int(self.shard_degrees().reshape(self.shape[0], self.shape[1])[count, sharding])
        steps = self.accumulation_steps().reshape(self.shape[0], self.shape[4])[count, micro]
        return Plan(
            instance_type=self.instance.name,
            num_instances=self.num_instances[count],
            gpus_per_instance=self.instance.num_gpus,
            precision=self.precisions[precision],
            activation_checkpointing=mode,
            checkpoint_every=every,
            micro_batch=self.micro_batches[micro],
            seq_len=self.seq_len,
            accumulation_steps=int(steps),
            gradient_sync=self.syncs[sync],
            shard_degree=shards,
            replica_degree=num_gpus // shards,
            reshard_after_forward=self.reshards[reshard],
            loss_chunks=self.loss_chunks[chunks],
            optimizer=self.optimizer,
            compile=self.compile,
        )


def build_grid(
    workload: Workload, pins: Pins, instance: Instance, num_instances: tuple[int, ...]
) -> Grid:
    """All plans for a workload on `num_instances` of an instance type that the pins leave open."""
    precisions = tuple(
        name
        for name in PRECISIONS
        if instance.gpu.supports(name) and (name not in ON_REQUEST or name == pins.precision)
    )
    checkpointings = CHECKPOINTINGS
    if pins.activation_checkpointing is not None:
        checkpointings = tuple(
            choice for choice in CHECKPOINTINGS if choice[0] == pins.activation_checkpointing
        )
    return Grid(
        instance=instance,
        seq_len=workload.seq_len,
        global_batch_tokens=workload.global_batch_tokens,
        optimizer=pins.optimizer or "adamw",
        compile=True if pins.compile is None else pins.compile,
        num_instances=num_instances,
        shardings=SHARDINGS if pins.sharding is None else (pins.sharding,),
        checkpointings=checkpointings,
        precisions=precisions
        if pins.precision is None
        else tuple(name for name in precisions if name == pins.precision),
        micro_batches=MICRO_BATCHES if pins.micro_batch is None else (pins.micro_batch,),
        loss_chunks=_loss_chunks(pins.loss_chunking),
        reshards=(True, False)
        if pins.reshard_after_forward is None
        else (pins.reshard_after_forward,),
        syncs=SYNCS if pins.gradient_sync is None else (pins.gradient_sync,),
    )


def _loss_chunks(pinned: bool | None) -> tuple[int, ...]:
    if pinned is None:
        return LOSS_CHUNKS
    return LOSS_CHUNKS[1:] if pinned else LOSS_CHUNKS[:1]
