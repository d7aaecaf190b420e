"""ModelShape from nothing but a size: stated rules, the same shape for the same size always."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from advisor.config_reader import shown
from advisor.errors import InvalidField
from advisor.model import ModelShape, checked_shape

MIN_SIZE_B = 0.1
MAX_SIZE_B = 72.0
# hidden_size / num_layers of published models (advisor/data/models.csv), by parameters in billions;
# between them it is interpolated on logarithmic axes.
ASPECTS: tuple[tuple[str, float, float], ...] = (
    ("smollm-135m", 0.134515008, 576 / 30),
    ("smollm-360m", 0.361821120, 960 / 32),
    ("qwen3-0.6b", 0.596049920, 1024 / 28),
    ("qwen3-1.7b", 1.720574976, 2048 / 28),
    ("llama-3.2-3b", 3.212749824, 3072 / 28),
    ("llama-3.1-8b", 8.030261248, 4096 / 32),
    ("qwen2.5-32b", 32.763876352, 5120 / 64),
    ("llama-3.1-70b", 70.553706496, 8192 / 80),
)
# Llama 3 (Grattafiori et al. 2024, arXiv:2407.21783, table 3) and its 3.2 models.
VOCAB_SIZE, SMALL_VOCAB_SIZE, SMALL_BELOW_B = 128_256, 49_152, 1.0
TIED_BELOW_B = 4.0
FFN_RATIO = 3.5
ROPE_THETA, MAX_POSITION = 500_000.0, 131_072
WIDE_FROM = 2048
TOLERANCE = 0.005


@dataclass(frozen=True, slots=True, kw_only=True)
class SizedShape:
    """A shape of a given size, and the rules that led to it, in words."""

    shape: ModelShape
    rules: tuple[str, ...]


def shape_from_size(size_b: float, *, field: str = "model.size_b") -> SizedShape:
    """A Llama-like shape of `size_b` billion parameters, within 1 % of it.

    Rules: grouped keys and values with 8 key heads (4 where 8 do not divide the heads), heads of
    128 (of 64 below hidden size 2048), gated MLP, RMS norms, rotary positions; the vocabulary of
    Llama 3 (of SmolLM below 1B); a tied head below 4B, as in Llama 3.2; hidden_size / num_layers
    as in published models of that size (ASPECTS); an MLP of about 3.5 times the hidden size, in
    steps of 256 (of 64 below hidden size 2048), that makes up the rest of the size. Of the shapes
    within half a percent it is the one nearest to both ratios.

    Raises InvalidField for what is no number from 0.1 to 72.
    """
    if isinstance(size_b, bool) or not isinstance(size_b, int | float):
        raise InvalidField(field, f"must be a number of billions, such as 8, not {shown(size_b)}")
    if not MIN_SIZE_B <= size_b <= MAX_SIZE_B:
        raise InvalidField(
            field,
            f"must be from {MIN_SIZE_B:g} to {MAX_SIZE_B:g} (billions of parameters), "
            f"not {shown(size_b)}; give the config.json of another model instead",
        )
    return _sized(float(size_b))


def aspect_of(size_b: float) -> float:
    """hidden_size / num_layers of published models of that size."""
    points = [(math.log(size), math.log(aspect)) for _, size, aspect in ASPECTS]
    x = math.log(size_b)
    if x <= points[0][0]:
        return ASPECTS[0][2]
    for (x0, y0), (x1, y1) in pairwise(points):
        if x <= x1:
            return math.exp(y0 + (y1 - y0) * (x - x0) / (x1 - x0))
    return ASPECTS[-1][2]


@lru_cache(maxsize=256)
def _sized(size_b: float) -> SizedShape:
    aspect = aspect_of(size_b)
    shape = min(
        (shape for shape in _candidates(size_b) if _error(shape, size_b) <= TOLERANCE),
        key=lambda shape: _distance(shape, aspect, size_b),
    )
    return SizedShape(
        shape=checked_shape(shape, field="model.size_b"), rules=_rules(shape, size_b, aspect)
    )


def _candidates(size_b: float) -> Iterator[ModelShape]:
    """Shapes of every hidden size and some depths, with the MLP that the size leaves room for."""
    for hidden in (*range(256, WIDE_FROM, 256), *range(WIDE_FROM, 12_289, 512)):
        aspect = aspect_of(size_b)
        for num_layers in range(max(math.ceil(hidden / aspect / 1.6), 4), 121):
            if hidden / num_layers < aspect / 1.6:
                break
            shape = _shape(size_b, hidden, num_layers)
            if shape is not None:
                yield shape


def _shape(size_b: float, hidden: int, num_layers: int) -> ModelShape | None:
    """The shape of that width and depth; None where no sensible MLP gives the size."""
    wide = hidden >= WIDE_FROM
    head_dim, step = (128, 256) if wide else (64, 64)
    heads = hidden // head_dim
    kv_heads = 8 if heads % 8 == 0 else 4
    vocab = VOCAB_SIZE if size_b >= SMALL_BELOW_B else SMALL_VOCAB_SIZE
    tied = size_b < TIED_BELOW_B
    attention = 2 * hidden * head_dim * (heads + kv_heads)
    rest = size_b * 1e9 - (1 if tied else 2) * vocab * hidden - hidden
    ffn = round((rest / num_layers - attention - 2 * hidden) / (3 * hidden) / step) * step
    if not 2 * hidden <= ffn <= 6 * hidden:
        return None
    return ModelShape(
        name=f"{size_b:g}b",
        family="sized",
        hidden_size=hidden,
        num_layers=num_layers,
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=head_dim,
        ffn_size=ffn,
        vocab_size=vocab,
        max_position=MAX_POSITION,
        tied_embeddings=tied,
        rope_theta=ROPE_THETA,
    )


def _error(shape: ModelShape, size_b: float) -> float:
    return abs(shape.num_parameters / (size_b * 1e9) - 1)


def _distance(shape: ModelShape, aspect: float, size_b: float) -> tuple[float, float, int]:
    """How far the ratios are from the rules', on logarithmic axes; then the error, then width."""
    found = abs(math.log(shape.hidden_size / shape.num_layers / aspect))
    found += abs(math.log(shape.ffn_size / shape.hidden_size / FFN_RATIO))
    return round(found, 9), _error(shape, size_b), shape.hidden_size


def _rules(shape: ModelShape, size_b: float, aspect: float) -> tuple[str, ...]:
    near = min(ASPECTS, key=lambda point: abs(math.log(point[1] / size_b)))[0]
    small = "SmolLM's" if shape.vocab_size == SMALL_VOCAB_SIZE else "Llama 3's"
    tied = "tied to the embedding, as" if shape.tied_embeddings else "of its own, unlike"
    return (
        f"Hidden size {shape.hidden_size:,} and {shape.num_layers} layers: their ratio is "
        f"{shape.hidden_size / shape.num_layers:.0f}, of published models of this size "
        f"(nearest: {near}) {aspect:.0f}.",
        f"{shape.num_heads} heads of {shape.head_dim} and {shape.num_kv_heads} for keys and "
        f"values: heads of 64 below hidden size {WIDE_FROM:,}, else 128; 8 key heads, or 4 where "
        "8 do not divide.",
        f"A gated MLP of {shape.ffn_size:,}, {shape.ffn_size / shape.hidden_size:.2f} times the "
        f"hidden size (aim: {FFN_RATIO}, as Llama 3), so that the size comes out.",
        f"A vocabulary of {shape.vocab_size:,}, {small}; below {SMALL_BELOW_B:g}B SmolLM's.",
        f"An output head {tied} in models below {TIED_BELOW_B:g}B (Llama 3.2).",
        "RMS norms, rotary positions, no biases.",
        f"{shape.num_parameters:,} parameters, "
        f"{shape.num_parameters / (size_b * 1e9) - 1:+.2%} from {size_b:g}B.",
    )
