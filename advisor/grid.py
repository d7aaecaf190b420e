"""Grid: every plan that the search considers on one instance type, as axes that broadcast.

Axis order is fixed, choices run from the plainest to the most intricate, and a flat index names a
plan, so equal plans tie in favour of the plainer one and the same input gives the same answer.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

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

# The axes that most terms depend on are the last ones: arrays that lack the others broadcast over
# long runs of memory. size: (num_instances, micro_batch), which decide the global batch together.
AXES = (
    "sharding",
    "gradient_sync",
    "reshard_after_forward",
    "loss_chunks",
    "activation_checkpointing",
    "precision",
    "size",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The choices along each axis of AXES, for one instance type.

    sizes: (num_instances, micro_batch, accumulation_steps) near the global batch asked for.
    """

    instance: Instance
    seq_len: int
    optimizer: Optimizer
    compile: bool
    shardings: tuple[Sharding, ...]
    syncs: tuple[GradientSync, ...]
    reshards: tuple[bool, ...]
    loss_chunks: tuple[int, ...]
    checkpointings: tuple[tuple[Checkpointing, int], ...]
    precisions: tuple[Precision, ...]
    sizes: tuple[tuple[int, int, int], ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return (
            len(self.shardings),
            len(self.syncs),
            len(self.reshards),
            len(self.loss_chunks),
            len(self.checkpointings),
            len(self.precisions),
            len(self.sizes),
        )

    @property
    def size(self) -> int:
        """Places of the grid, some of which mean nothing of their own."""
        return math.prod(self.shape)

    def along(self, axis: str, values: Sequence[float]) -> FloatArray:
        """Values along one axis, shaped to broadcast against the others."""
        shape = [1] * len(AXES)
        shape[AXES.index(axis)] = len(values)
        return np.asarray(values, dtype=np.float64).reshape(shape)

    def num_instances(self) -> FloatArray:
        return self.along("size", [count for count, _, _ in self.sizes])

    def micro_batches(self) -> FloatArray:
        return self.along("size", [micro_batch for _, micro_batch, _ in self.sizes])

    def shard_degrees(self) -> FloatArray:
        """GPUs per copy of the parameters, shaped (sharding, 1, …, size)."""
        per_instance = float(self.instance.num_gpus)
        num_gpus = self.num_instances() * per_instance
        degrees = {
            "full": num_gpus,
            "hybrid": np.full_like(num_gpus, per_instance),
            "none": np.ones_like(num_gpus),
        }
        return np.concatenate([degrees[sharding] for sharding in self.shardings])

    def accumulation_steps(self) -> FloatArray:
        """Micro steps whose batch is nearest to the one asked for, along the sizes."""
        return self.along("size", [steps for _, _, steps in self.sizes])

    def settings(self) -> Settings:
        """The numeric view of all plans."""
        fractions = [checkpointing_fractions(mode, every) for mode, every in self.checkpointings]
        kept, per_op, full = (
            self.along("activation_checkpointing", [f[i] for f in fractions]) for i in range(3)
        )
        codes = self.along("precision", [PRECISIONS.index(name) for name in self.precisions])
        steps = self.accumulation_steps()
        deferred = self.along("gradient_sync", [sync == "last" for sync in self.syncs])
        num_gpus = self.num_instances() * self.instance.num_gpus
        shards = self.shard_degrees()
        return Settings(
            micro_batch=self.micro_batches(),
            seq_len=float(self.seq_len),
            num_gpus=num_gpus,
            gpus_per_instance=float(self.instance.num_gpus),
            shard_degree=shards,
            replica_degree=num_gpus / shards,
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
        """Plans that mean something of their own; broadcasts to the grid."""
        several = self.num_instances() > 1
        hybrid = self.along("sharding", [name == "hybrid" for name in self.shardings]) > 0
        unsharded = self.along("sharding", [name == "none" for name in self.shardings]) > 0
        kept = self.along("reshard_after_forward", self.reshards) < 1
        deferred = self.along("gradient_sync", [sync == "last" for sync in self.syncs]) > 0
        # HSDP on one instance is full sharding; with one shard there is nothing to gather again;
        # deferring needs several micro steps.
        several_steps = self.accumulation_steps() > 1
        return (several | ~hybrid) & ~(unsharded & kept) & (several_steps | ~deferred)

    def plan(self, flat_index: int) -> Plan:
        """The plan of a flat index into an array of `shape`."""
        at = [int(i) for i in np.unravel_index(flat_index, self.shape)]
        sharding, sync, reshard, chunks, checkpointing, precision, size = at
        mode, every = self.checkpointings[checkpointing]
        num_instances, micro_batch, steps = self.sizes[size]
        num_gpus = num_instances * self.instance.num_gpus
        shards = {"full": num_gpus, "hybrid": self.instance.num_gpus, "none": 1}[
            self.shardings[sharding]
        ]
        return Plan(
            instance_type=self.instance.name,
            num_instances=num_instances,
            gpus_per_instance=self.instance.num_gpus,
            precision=self.precisions[precision],
            activation_checkpointing=mode,
            checkpoint_every=every,
            micro_batch=micro_batch,
            seq_len=self.seq_len,
            accumulation_steps=steps,
            gradient_sync=self.syncs[sync],
            shard_degree=shards,
            replica_degree=num_gpus // shards,
            reshard_after_forward=self.reshards[reshard],
            loss_chunks=self.loss_chunks[chunks],
            optimizer=self.optimizer,
            compile=self.compile,
        )


@lru_cache(maxsize=64)
def _sizes(
    wanted: int, sequence: int, counts: tuple[int, ...], micro_batches: tuple[int, ...]
) -> tuple[tuple[int, int, int], ...]:
    """Instances, micro batches and the whole micro steps nearest to the global batch asked for.

    wanted: tokens of the global batch; sequence: tokens of one sequence on each GPU of an instance.
    Those that are not near it are left out.
    """
    sizes = []
    for count in counts:
        for micro_batch in micro_batches:
            unit = count * micro_batch * sequence
            steps = max(round(wanted / unit), 1)
            if 1 / MAX_BATCH_RATIO <= steps * unit / wanted <= MAX_BATCH_RATIO:
                sizes.append((count, micro_batch, steps))
    return tuple(sizes)


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
    micro_batches = MICRO_BATCHES if pins.micro_batch is None else (pins.micro_batch,)
    return Grid(
        instance=instance,
        seq_len=workload.seq_len,
        optimizer=pins.optimizer or "adamw",
        compile=True if pins.compile is None else pins.compile,
        shardings=SHARDINGS if pins.sharding is None else (pins.sharding,),
        checkpointings=checkpointings,
        precisions=precisions
        if pins.precision is None
        else tuple(name for name in precisions if name == pins.precision),
        loss_chunks=_loss_chunks(pins.loss_chunking),
        reshards=(True, False)
        if pins.reshard_after_forward is None
        else (pins.reshard_after_forward,),
        syncs=SYNCS if pins.gradient_sync is None else (pins.gradient_sync,),
        sizes=_sizes(
            workload.global_batch_tokens,
            instance.num_gpus * workload.seq_len,
            num_instances,
            micro_batches,
        ),
    )


def _loss_chunks(pinned: bool | None) -> tuple[int, ...]:
    if pinned is None:
        return LOSS_CHUNKS
    return LOSS_CHUNKS[1:] if pinned else LOSS_CHUNKS[:1]
