"""8-bit optimizer states in checkpoints: plain tensors out, and in again on any number of GPUs.

torchao keeps an average of a parameter's shard as codes (a byte per element), one fp32 scale per
256 elements in order, and a table of 256 values; or in fp32 where the shard is small or is not
whole blocks. Where all shards are alike, codes and scales are stored as they are, and so resumed
bit for bit; else the values are stored, and quantised again when they are read.
"""

from collections.abc import Callable, Iterable, Mapping
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor, Shard
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

BLOCK = 256


def is_eight_bit(value: object) -> bool:
    """Whether this is a sharded average that is kept in 8 bits here."""
    return isinstance(value, DTensor) and _is_quantised(value.to_local())


def stored_form(value: DTensor) -> DTensor | dict[str, Tensor]:
    """An average that is_eight_bit, as tensors that a checkpoint can hold; codes share memory."""
    local: Any = value.to_local()
    if not _is_even(value):
        return _like(value, local.dequantize())
    scale = DTensor.from_local(local.scale, value.device_mesh, value.placements, run_check=False)
    return {"codes": _like(value, local.codes), "scale": scale, "qmap": local.qmap}


class Incoming:
    """What a checkpoint's averages are read into, and how they get from there into the states.

    stored: the names of the tensors in the checkpoint, as torch.distributed.checkpoint joins them.
    """

    def __init__(self, stored: Iterable[str]) -> None:
        self._stored = frozenset(stored)
        self._fill: list[Callable[[], None]] = []

    def tree(self, states: Any, path: tuple[str, ...] = ()) -> Any:
        """The states, with a target in the stored form wherever it is not the form here."""
        if isinstance(states, Mapping):
            return {key: self.tree(item, (*path, str(key))) for key, item in states.items()}
        if not isinstance(states, DTensor):
            return states
        if ".".join((*path, "codes")) in self._stored:
            return self._coded(states)
        return self._valued(states) if is_eight_bit(states) else states

    @torch.no_grad()
    def fill(self) -> None:
        """Once the tree is read: bring what was read into the states."""
        for fill in self._fill:
            fill()

    def _coded(self, state: DTensor) -> dict[str, Tensor]:
        local = state.to_local()
        target: dict[str, Tensor] = {
            "codes": _like(state, torch.empty_like(_codes_of(local), dtype=torch.uint8)),
            "scale": torch.empty(state.numel() // BLOCK, device=local.device),
            "qmap": torch.empty(BLOCK, device=local.device),
        }
        self._fill.append(lambda: _decode(state, target))
        return target

    def _valued(self, state: DTensor) -> DTensor:
        local: Any = state.to_local()
        target = _like(state, torch.empty_like(local.codes, dtype=torch.float32))
        self._fill.append(lambda: local.copy_(target.to_local()))
        return target


def _decode(state: DTensor, read: Mapping[str, Tensor]) -> None:
    local: Any = state.to_local()
    codes: Tensor = read["codes"].to_local()  # type: ignore[attr-defined]  # a DTensor
    if not codes.numel():
        return
    _, offset = compute_local_shape_and_global_offset(
        state.shape, state.device_mesh, state.placements
    )
    first = offset[0] * prod(state.shape[1:])
    if _is_quantised(local) and first % BLOCK == 0:
        local.codes.copy_(codes)
        local.scale.copy_(read["scale"][first // BLOCK :][: local.scale.numel()])
        return
    block = torch.arange(first, first + codes.numel(), device=codes.device) // BLOCK
    values = read["qmap"][codes.flatten().int()] * read["scale"][block]
    local.copy_(values.view(codes.shape))


def _is_quantised(local: object) -> bool:
    return type(local).__name__ == "OptimState8bit"


def _codes_of(local: Any) -> Tensor:
    codes: Tensor = local.codes if _is_quantised(local) else local
    return codes


def _is_even(value: DTensor) -> bool:
    """Whether every rank holds equally many rows, so that all keep them in the same form."""
    split = (
        size
        for size, placement in zip(value.device_mesh.shape, value.placements, strict=True)
        if isinstance(placement, Shard)
    )
    return value.shape[0] % prod(split) == 0


def _like(value: DTensor, local: Tensor) -> DTensor:
    return DTensor.from_local(
        local,
        value.device_mesh,
        value.placements,
        run_check=False,
        shape=value.shape,
        stride=value.stride(),
    )
