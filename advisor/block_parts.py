"""What one block keeps for its backward, part by part: the law of activations.py, in words."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from advisor.activations import NVFP4
from advisor.explanation import Symbol
from advisor.model import ModelShape
from advisor.plan import Plan
from advisor.stack import Stack

_BF16_BYTES = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Bytes per token and element of a width (h, q, k, heads or i), and what they hold."""

    width: str
    num_bytes: float
    what: str


LOG_SUM_EXP = Part(width="heads", num_bytes=4.0, what="log-sum-exp of attention in fp32")


def widths_of(shape: ModelShape) -> tuple[Symbol, ...]:
    """The widths of a block."""
    return (
        Symbol(name="h", value=shape.hidden_size, meaning="hidden size"),
        Symbol(
            name="q", value=shape.q_size, meaning="width of the queries (heads times head size)"
        ),
        Symbol(name="k", value=shape.kv_size, meaning="width of the keys, and of the values"),
        Symbol(name="heads", value=shape.num_heads, meaning="attention heads of the queries"),
        Symbol(name="i", value=shape.ffn_size, meaning="width of one up projection of the MLP"),
    )


def written(parts: Iterable[Part]) -> str:
    """The sum of some parts over the widths, as a formula; 0 without any."""
    sums: dict[str, float] = {}
    for part in parts:
        sums[part.width] = sums.get(part.width, 0.0) + part.num_bytes
    texts = [f"{num_bytes:g} * {width}" for width, num_bytes in sums.items() if num_bytes]
    return " + ".join(texts) or "0"


def described_widths(shape: ModelShape, parts: Sequence[Part]) -> dict[str, Symbol]:
    """The widths by name, each saying which of the parts have it."""
    table = {}
    for symbol in widths_of(shape):
        held = dict.fromkeys(part.what for part in parts if part.width == symbol.name)
        meaning = ": ".join((symbol.meaning, ", ".join(held))) if held else symbol.meaning
        table[symbol.name] = Symbol(name=symbol.name, value=symbol.value, meaning=meaning)
    return table


def kept_parts(shape: ModelShape, plan: Plan, stack: Stack) -> tuple[Part, ...]:
    """Everything that the backward of one block needs."""
    quantised = _quantised_bytes(plan)
    parts = [
        Part(width="h", num_bytes=2 * _BF16_BYTES, what="residual stream before both halves"),
        Part(width="h", num_bytes=2 * quantised, what="outputs of the norms"),
        Part(width="h", num_bytes=stack.block_extra_bytes, what="dropout masks and sums"),
        *_attention_parts(shape, stack),
        *_mlp_parts(shape, plan, stack),
        Part(width="i", num_bytes=quantised, what="input of the down projection"),
        *_eager_cast_parts(shape, plan, stack),
    ]
    if stack.full_precision_norms and not plan.compile:
        parts.append(Part(width="h", num_bytes=8.0, what="inputs of the norms in fp32"))
    return _filled(parts)


def per_operation_parts(shape: ModelShape, plan: Plan, stack: Stack) -> tuple[Part, ...]:
    """What per-operation checkpointing keeps: every second matrix product, attention's output."""
    if plan.precision == "nvfp4":
        return (
            Part(width="h", num_bytes=4.0, what="input and output of the block"),
            Part(width="q", num_bytes=2.0, what="output of attention"),
            Part(width="k", num_bytes=2.0, what="keys of attention"),
            LOG_SUM_EXP,
        )
    down = 0.0 if plan.compile or not shape.gated_mlp else _BF16_BYTES
    return _filled(
        [
            *input_parts(),
            Part(width="h", num_bytes=down, what="product of the down projection"),
            Part(width="q", num_bytes=4.0, what="queries and output of attention"),
            Part(width="k", num_bytes=2.0, what="values of attention"),
            LOG_SUM_EXP,
            Part(width="i", num_bytes=2.0, what="one product of the MLP"),
            *_eager_cast_parts(shape, plan, stack),
        ]
    )


def input_parts() -> tuple[Part, ...]:
    """What full checkpointing keeps."""
    return (Part(width="h", num_bytes=_BF16_BYTES, what="input of the block"),)


def transient_parts(shape: ModelShape, stack: Stack) -> tuple[Part, ...]:
    """Gradients and products that are alive only during the block's own backward."""
    # Fused kernels write the gradient of the activation over its input.
    inputs = 0.0 if stack.optimized else _BF16_BYTES * (2 if shape.gated_mlp else 1)
    return _filled(
        [
            Part(width="h", num_bytes=_BF16_BYTES, what="gradient of the residual stream"),
            Part(width="i", num_bytes=inputs, what="gradients inside of the MLP"),
        ]
    )


def _filled(parts: Iterable[Part]) -> tuple[Part, ...]:
    return tuple(part for part in parts if part.num_bytes)


def _quantised_bytes(plan: Plan) -> float:
    """Bytes an element of the inputs that a low-precision product may keep in its own format.

    Compiled fp8 casts compute them again from what is kept anyway.
    """
    if plan.precision == "nvfp4":
        return NVFP4
    return 0.0 if plan.precision == "fp8" and plan.compile else _BF16_BYTES


def _attention_parts(shape: ModelShape, stack: Stack) -> Iterator[Part]:
    yield Part(width="q", num_bytes=4.0, what="queries and output of attention")
    if stack.expand_kv:
        yield Part(width="q", num_bytes=4.0, what="keys and values repeated to all heads")
    else:
        yield Part(width="k", num_bytes=4.0, what="keys and values of attention")
    yield LOG_SUM_EXP
    if shape.qk_norm:
        yield Part(width="q", num_bytes=2.0, what="norm of the queries")
        yield Part(width="k", num_bytes=2.0, what="norm of the keys")


def _mlp_parts(shape: ModelShape, plan: Plan, stack: Stack) -> Iterator[Part]:
    if not shape.gated_mlp:
        yield Part(width="i", num_bytes=2.0, what="product of the up projection")
        return
    yield Part(width="i", num_bytes=4.0, what="products of gate and up projection")
    # A fused kernel computes the activated gate again from the gate.
    if not (plan.compile or stack.optimized):
        yield Part(width="i", num_bytes=2.0, what="gate after its activation")


def _eager_cast_parts(shape: ModelShape, plan: Plan, stack: Stack) -> Iterator[Part]:
    """Eager float8 linears of 2024 kept their cast input beside the bf16 one."""
    if plan.precision != "fp8" or plan.compile:
        return
    each = stack.eager_fp8_bytes
    inputs = 3 + (2 if shape.gated_mlp else 1)
    for width, number in (("h", inputs), ("q", 1), ("i", 1)):
        yield Part(width=width, num_bytes=number * each, what="inputs of products cast to fp8")
