"""Rotary position embeddings and their scalings (Llama 3, linear, YaRN).

Formulas: Su et al. 2021 (arXiv:2104.09864); linear: Chen et al. 2023 (arXiv:2306.15595); Llama 3:
Meta's reference code; YaRN: Peng et al. 2023 (arXiv:2309.00071).
"""

import json
import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from trainer.errors import Unsupported
from trainer.settings import ModelSettings

# Of the paper (section 3.4.3), where a model names no other.
DEFAULT_THETA = 10000.0

_NEEDED: Mapping[str, tuple[str, ...]] = {
    "linear": ("factor",),
    "llama3": (
        *("factor", "low_freq_factor", "high_freq_factor"),
        "original_max_position_embeddings",
    ),
    "yarn": ("factor",),
}


def rotary_size(model: ModelSettings) -> int:
    """Elements of a head that are rotated."""
    return int(model.head_dim * model.rotary_fraction)


def scaling_of(model: ModelSettings) -> dict[str, Any]:
    """The scaling as a mapping; {} where there is none. Raises Unsupported by name."""
    scaling: dict[str, Any] = json.loads(model.rope_scaling) if model.rope_scaling else {}
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    if kind == "default":
        return {}
    if kind not in _NEEDED:
        raise Unsupported(f"rope_scaling {kind!r} is not one of {', '.join(_NEEDED)}")
    missing = [name for name in _NEEDED[kind] if name not in scaling]
    if missing:
        raise Unsupported(f"rope_scaling {kind} without {', '.join(missing)}")
    return {**scaling, "kind": kind}


def frequencies(model: ModelSettings) -> tuple[Tensor, float]:
    """(radians per position for each pair of elements, factor on sine and cosine)."""
    size = rotary_size(model)
    base = model.rope_theta or DEFAULT_THETA
    inverse = 1.0 / base ** (torch.arange(0, size, 2, dtype=torch.float32) / size)
    scaling = scaling_of(model)
    if not scaling:
        return inverse, 1.0
    if scaling["kind"] == "linear":
        return inverse / scaling["factor"], 1.0
    if scaling["kind"] == "llama3":
        return _llama3(inverse, scaling), 1.0
    return _yarn(inverse, size, base, model.max_position, scaling)


def _llama3(inverse: Tensor, scaling: Mapping[str, Any]) -> Tensor:
    original = scaling["original_max_position_embeddings"]
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    wavelength = 2 * math.pi / inverse
    smooth = ((original / wavelength - low) / (high - low)).clamp(0, 1)
    slowed: Tensor = (1 - smooth) * inverse / scaling["factor"] + smooth * inverse
    return slowed


def _yarn(
    inverse: Tensor, size: int, base: float, max_position: int, scaling: Mapping[str, Any]
) -> tuple[Tensor, float]:
    original = scaling.get("original_max_position_embeddings") or max_position
    factor = scaling["factor"]

    def element_of(rotations: float) -> float:
        return size * math.log(original / (rotations * 2 * math.pi)) / (2 * math.log(base))

    low = element_of(scaling.get("beta_fast", 32.0))
    high = element_of(scaling.get("beta_slow", 1.0))
    if scaling.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, size - 1)
    ramp = ((torch.arange(size // 2) - low) / max(high - low, 0.001)).clamp(0, 1)
    attention_factor = scaling.get("attention_factor") or 0.1 * math.log(factor) + 1.0
    return inverse * (1 - ramp) + inverse / factor * ramp, float(attention_factor)


def tables(model: ModelSettings, num_positions: int) -> tuple[Tensor, Tensor]:
    """Cosines and sines, each (num_positions, rotary_size), fp32."""
    inverse, factor = frequencies(model)
    angles = torch.outer(torch.arange(num_positions, dtype=torch.float32), inverse)
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos() * factor, angles.sin() * factor


def rotate(x_BHTA: Tensor, cos_TA: Tensor, sin_TA: Tensor) -> Tensor:
    """The first rotary_size elements of each head rotated, in the type of x."""
    size = cos_TA.shape[-1]
    turned, rest = x_BHTA[..., :size], x_BHTA[..., size:]
    left, right = turned.chunk(2, dim=-1)
    turned = turned * cos_TA + torch.cat((-right, left), dim=-1) * sin_TA
    return turned if size == x_BHTA.shape[-1] else torch.cat((turned, rest), dim=-1)
