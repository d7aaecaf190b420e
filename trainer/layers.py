"""Layers: which blocks look back on a window only, which rotate, and what attention may see.

Where only some layers differ, every k-th is the exception, as in the published models (Gemma 2:
every 2nd sees everything; Gemma 3: every 6th; OLMo 3: every 4th; SmolLM3: every 4th is bare).

B batch · H query heads · T tokens
"""

import math

import torch
from torch import Tensor

from trainer.errors import Unsupported
from trainer.settings import ModelSettings


def windowed_layers(model: ModelSettings) -> tuple[bool, ...]:
    """Whether each block looks back on the sliding window only. Raises Unsupported."""
    if model.sliding_window is None:
        return (False,) * model.num_layers
    if model.num_windowed_layers is None:
        return (True,) * model.num_layers
    whole = model.num_layers - model.num_windowed_layers
    return tuple(not is_whole for is_whole in _every(model.num_layers, whole, "not windowed"))


def rotated_layers(model: ModelSettings) -> tuple[bool, ...]:
    """Whether each block rotates its queries and keys. Raises Unsupported."""
    bare = _every(model.num_layers, model.num_unrotated_layers, "unrotated")
    return tuple(not is_bare for is_bare in bare)


def blocks_differ(model: ModelSettings) -> bool:
    """Whether there is more than one kind of block."""
    return len(set(zip(windowed_layers(model), rotated_layers(model), strict=True))) > 1


def _every(num_layers: int, number: int, what: str) -> tuple[bool, ...]:
    """`number` of the layers, every k-th, with the largest k that makes so many."""
    if number == 0:
        return (False,) * num_layers
    step = num_layers // max(number, 1)
    if not 0 < number <= num_layers or num_layers // step != number:
        raise Unsupported(f"{number} {what} layers of {num_layers} are not every k-th layer")
    return tuple((index + 1) % step == 0 for index in range(num_layers))


def masks(
    model: ModelSettings, documents_B1TT: Tensor | None, length: int, like: Tensor
) -> tuple[Tensor | None, Tensor | None]:
    """What all layers may see, and what windowed ones may; None where causality is enough.

    documents_B1TT: True where a token may look, or None. `like` gives device and type. With ALiBi
    the mask is what is added to the scores.
    """
    window = model.sliding_window
    everything, near = documents_B1TT, documents_B1TT
    if window is not None and window < length:
        back_TT = _back(length, like.device)
        seen_TT = (back_TT >= 0) & (back_TT < window)
        near = seen_TT.expand(1, 1, length, length)
        near = near if documents_B1TT is None else near & documents_B1TT
    if model.positions != "alibi":
        return everything, near
    return _alibi(model, everything, length, like), _alibi(model, near, length, like)


def _back(length: int, device: torch.device) -> Tensor:
    place_T = torch.arange(length, device=device)
    return place_T.unsqueeze(1) - place_T.unsqueeze(0)


def _alibi(model: ModelSettings, seen: Tensor | None, length: int, like: Tensor) -> Tensor:
    """Distance times each head's slope, and nothing of what may not be seen: (·, H, T, T)."""
    back_TT = _back(length, like.device)
    slopes_H = torch.tensor(slopes(model.num_heads), device=like.device)
    bias_1HTT = (-slopes_H[:, None, None] * back_TT).to(like.dtype).unsqueeze(0)
    seen = back_TT.ge(0).expand(1, 1, length, length) if seen is None else seen
    return torch.where(seen, bias_1HTT, float("-inf"))


def slopes(num_heads: int) -> list[float]:
    """ALiBi's slopes: Press et al. 2022 (arXiv:2108.12409), section 3 and its reference code."""
    power = 2 ** math.floor(math.log2(num_heads))
    first = [2.0 ** (-8.0 * (n + 1) / power) for n in range(power)]
    between = [2.0 ** (-8.0 * (2 * n + 1) / (2 * power)) for n in range(num_heads - power)]
    return first + between
