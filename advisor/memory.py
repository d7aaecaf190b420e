"""Peak memory of one GPU as a timeline: at each instant of a step, a sum of named terms.

The largest instant is the peak. All functions take one plan's settings or many as arrays.
docs/model.md has the equations and how they compare with measurements.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from advisor.activations import BF16, FP32, BlockBytes, block_bytes
from advisor.model import ModelShape
from advisor.plan import PRECISIONS
from advisor.settings import Number, Settings, total
from advisor.stack import Stack

# A loss that is sliced without its head keeps the bf16 logits and their gradient whole.
WHOLE_LOGIT_BYTES = 4.0
PEAK_INSTANTS = (
    "loss",
    "first block backward",
    "last block backward",
    "embedding backward",
    "optimizer",
)

Terms = Mapping[str, Number]


@dataclass(frozen=True, slots=True, kw_only=True)
class Units:
    """Elements of the pieces that a program gathers and reduces together.

    root: what stays gathered from the end of the forward to the end of the backward: embedding and
    head where they are one unit or tied, else 0. head, embedding: units of their own, else 0.
    """

    total: int
    blocks: int
    block: int
    root: int
    embedding: int
    head: int

    @property
    def at_loss(self) -> int:
        """Elements gathered for the head's product."""
        return self.root or self.head

    @property
    def largest(self) -> int:
        return max(self.root, self.embedding, self.head, self.block)


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Estimate for one plan or many.

    active_bytes: live tensors at the worst instant. reserved_bytes: what the caching allocator
    holds then, without fragmentation. instants: reserved bytes by instant. terms: by instant.
    """

    active_bytes: Number
    reserved_bytes: Number
    instants: Mapping[str, Number]
    terms: Mapping[str, Terms]


def units_of(shape: ModelShape, stack: Stack) -> Units:
    """Elements by unit; a stack without embeddings has blocks only."""
    blocks = shape.num_layers * shape.block_parameters
    if not stack.has_embeddings:
        return Units(
            total=blocks, blocks=blocks, block=shape.block_parameters, root=0, embedding=0, head=0
        )
    embedding = shape.embedding_parameters + shape.position_parameters
    one_unit = stack.root_is_one_unit or shape.head_parameters == 0
    return Units(
        total=shape.num_parameters,
        blocks=blocks,
        block=shape.block_parameters,
        root=embedding + shape.head_parameters if one_unit else 0,
        embedding=0 if one_unit else embedding,
        head=0 if one_unit else shape.head_parameters,
    )


def estimate_memory(shape: ModelShape, settings: Settings, stack: Stack) -> Memory:
    """Peak of one GPU. Arrays in `settings` broadcast; the result has their common shape."""
    units = units_of(shape, stack)
    block = block_bytes(shape, settings, stack)
    states = _states(units, settings, stack)
    gradients = _gradients(units, settings, stack)
    instants: dict[str, Terms] = {
        "loss": _loss(shape, units, block, settings, stack),
        "first block backward": _first_block(shape, units, block, settings, stack),
        "last block backward": _last_block(units, block, settings, stack),
        "embedding backward": _embedding(units, settings, stack),
        "optimizer": _optimizer(units, settings, stack),
    }
    pools: Terms = {
        "gradients": gradients,
        "gather buffer": _gather_pool(units, settings, stack),
    }
    held = total(states) + total(pools)
    reserved = {name: held + total(terms) for name, terms in instants.items()}
    # Before the backward only what earlier micro steps accumulated exists of the gradients.
    earlier = np.where(settings.accumulation_steps > 1, gradients, 0.0) + total(states)
    later = total(states) + gradients
    flat = _flat_buffers(units, settings, stack)
    active = {
        name: total(terms) + (earlier if name in _BEFORE_GRADIENTS else later) + flat.get(name, 0.0)
        for name, terms in instants.items()
    }
    return Memory(
        active_bytes=_largest(active),
        reserved_bytes=_largest(reserved),
        instants=reserved,
        terms={name: {**states, **pools, **terms} for name, terms in instants.items()},
    )


_BEFORE_GRADIENTS = ("loss", "first block backward")


def _largest(values: Mapping[str, Number]) -> Number:
    largest: Number = reduce(np.maximum, values.values())
    return largest


def _states(units: Units, settings: Settings, stack: Stack) -> Terms:
    """Parameters and optimizer state, alive throughout."""
    # A distributed optimizer (Megatron) shards master weights and states over all replicas.
    shards = settings.num_gpus if stack.master_bytes else settings.shard_degree
    weights = stack.weight_bytes * units.total / settings.shard_degree
    return {
        "parameters": weights + stack.master_bytes * units.total / shards,
        "optimizer": settings.state_bytes * units.total / shards,
    }


def _gradients(units: Units, settings: Settings, stack: Stack) -> Number:
    """Gradients at the end of the backward: sharded, or whole and fp32 where deferred."""
    sharded = stack.grad_bytes * units.total / settings.shard_degree
    if stack.engine == "ddp":
        return sharded
    return np.where(settings.defer_sync > 0, FP32 * units.total, sharded)


def _gather_pool(units: Units, settings: Settings, stack: Stack) -> Number:
    """Flat all-gather buffers, which live on a stream, and so in a pool, of their own."""
    if stack.engine == "ddp":
        return 0.0
    pool: Number = _block_gather_bytes(settings, stack) * max(units.largest, 2 * units.block)
    return pool


def _flat_buffers(units: Units, settings: Settings, stack: Stack) -> Terms:
    """What FSDP2 copies the last gathered unit out of, alive beside the copy, by instant."""
    if stack.engine != "fsdp2":
        return {}
    block = _block_gather_bytes(settings, stack) * units.block
    head = stack.gather_bytes * max(units.head, units.block)
    return {
        "loss": np.where(_sliced_with_head(settings, stack), head, block),
        "first block backward": block,
        "last block backward": block,
    }


def _block_gather_bytes(settings: Settings, stack: Stack) -> Number:
    if not stack.fp8_gather:
        return stack.gather_bytes
    return np.where(np.equal(settings.precision, PRECISIONS.index("fp8")), 1.0, stack.gather_bytes)


def _gathered(
    units: Units,
    settings: Settings,
    stack: Stack,
    *,
    num_blocks: float,
    edge: float,
    after_forward: bool,
) -> Number:
    """Unsharded parameters: `edge` elements, and some blocks.

    after_forward: without resharding all blocks are still gathered (the backward frees each).
    """
    if stack.engine == "ddp":
        # Mixed precision by autocast keeps a bf16 copy of the fp32 weights while a step lasts.
        return BF16 * units.total if stack.weight_bytes > BF16 else 0.0
    few = num_blocks * units.block
    blocks = np.where(settings.reshard > 0, few, units.blocks) if after_forward else few
    return stack.gather_bytes * edge + _block_gather_bytes(settings, stack) * blocks


def _saved(shape: ModelShape, block: BlockBytes, settings: Settings) -> Number:
    """Activations of all blocks at the end of the forward."""
    per_token = (
        settings.kept_fraction * block.kept
        + settings.op_fraction * block.per_op
        + settings.full_fraction * block.full
    )
    return shape.num_layers * per_token * settings.tokens


def _logits(shape: ModelShape, settings: Settings, stack: Stack) -> Terms:
    """Logits in all their copies, and what slicing the loss costs."""
    if not stack.has_embeddings:
        return {}
    chunks = _chunks(settings, stack)
    per_logit = np.where(settings.compiled > 0, stack.compiled_logit_bytes, stack.logit_bytes)
    if stack.chunks_cover_head:
        sliced = np.where(chunks > 1, stack.sliced_logit_bytes / chunks, per_logit)
    else:
        whole = np.minimum(WHOLE_LOGIT_BYTES, per_logit)
        sliced = np.where(chunks > 1, whole + (per_logit - whole) / chunks, per_logit)
    elements = settings.tokens * shape.vocab_size
    hidden = stack.slice_gradient_bytes * shape.hidden_size * settings.tokens
    head = BF16 * shape.head_matmul_parameters
    return {
        "logits": sliced * elements,
        "loss slices": np.where(chunks > 1, hidden + head, 0.0) if stack.chunks_cover_head else 0.0,
    }


def _chunks(settings: Settings, stack: Stack) -> Number:
    return np.maximum(settings.loss_chunks, max(stack.built_in_loss_chunks, 1.0))


def _sliced_with_head(settings: Settings, stack: Stack) -> NDArray[np.bool_]:
    """Whether head and loss run slice by slice."""
    return np.logical_and(_chunks(settings, stack) > 1, stack.chunks_cover_head)


def _loss(
    shape: ModelShape, units: Units, block: BlockBytes, settings: Settings, stack: Stack
) -> Terms:
    return {
        "activations": _saved(shape, block, settings),
        "last hidden states": 3 * BF16 * shape.hidden_size * settings.tokens,
        "gathered parameters": _gathered(
            units, settings, stack, num_blocks=0.0, edge=units.at_loss, after_forward=True
        ),
        **_logits(shape, settings, stack),
    }


def _first_block(
    shape: ModelShape, units: Units, block: BlockBytes, settings: Settings, stack: Stack
) -> Terms:
    """Start of the last block's backward: all activations, and this block's recomputed."""
    recomputed = settings.op_fraction * (block.kept - block.per_op)
    recomputed = recomputed + np.where(settings.full_fraction > 0, block.kept - block.full, 0.0)
    return {
        "activations": _saved(shape, block, settings),
        "recomputed block": recomputed * settings.tokens,
        "block temporaries": block.transient * settings.tokens,
        "gathered parameters": _gathered(
            units, settings, stack, num_blocks=2.0, edge=units.root, after_forward=True
        ),
        "gradient reduction": np.where(
            stack.head_reduced_first & _sliced_with_head(settings, stack),
            0.0,
            _reduction(stack, units.head),
        )
        + _whole_gradient(stack, units.root and shape.head_matmul_parameters),
    }


def _last_block(units: Units, block: BlockBytes, settings: Settings, stack: Stack) -> Terms:
    """End of the first block's backward: nearly all gradients exist."""
    return {
        "gathered parameters": _gathered(
            units, settings, stack, num_blocks=1.0, edge=units.root, after_forward=False
        ),
        "recomputed block": (block.kept + block.transient) * settings.tokens,
        "gradient reduction": _reduction(stack, units.block)
        + _whole_gradient(stack, units.block + units.root),
    }


def _embedding(units: Units, settings: Settings, stack: Stack) -> Terms:
    """Gradient of the embedding, or of the whole root unit, and its reduction."""
    edge = units.root or units.embedding
    return {
        "gathered parameters": _gathered(
            units, settings, stack, num_blocks=0.0, edge=units.root, after_forward=False
        ),
        "gradient reduction": _reduction(stack, edge) + _whole_gradient(stack, edge),
    }


def _optimizer(units: Units, settings: Settings, stack: Stack) -> Terms:
    temporaries = stack.optimizer_temporaries * units.total / settings.shard_degree
    return {"optimizer temporaries": temporaries}


def _reduction(stack: Stack, elements: float) -> float:
    """Input of a reduce-scatter, in the type of the reduction."""
    return 0.0 if stack.engine == "ddp" else stack.reduce_bytes * elements


def _whole_gradient(stack: Stack, elements: float) -> float:
    """Unsharded gradient of a unit, in the type of the compute."""
    return 0.0 if stack.engine == "ddp" else BF16 * elements
