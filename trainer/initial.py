"""Initial weights: random ones that do not depend on the number of processes."""

import hashlib
import math

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor

from trainer.model import Model, Xielu, initial_std


def _before_softplus(value: float) -> float:
    return math.log(math.expm1(value))


# Slopes that xIELU begins with, as the parameters that they are the softplus of.
XIELU_STARTS = {
    "alpha_p": _before_softplus(Xielu.START),
    "alpha_n": _before_softplus(Xielu.START - Xielu.BETA),
}


def clean_name(name: str) -> str:
    """A parameter's name without the wrappers around its module."""
    return name.replace("_checkpoint_wrapped_module.", "").replace("_orig_mod.", "")


@torch.no_grad()
def initialise(model: Model, seed: int) -> None:
    """Fill the parameters in place: each from a generator of its own, seeded by its name.

    Every rank draws the whole parameter and keeps its part, so the weights are the same on any
    number of GPUs. Norms begin at one, biases at zero, matrices normally distributed.
    """
    for name, parameter in model.named_parameters():
        fill(parameter, _whole(clean_name(name), parameter, model, seed))


def fill(parameter: Tensor, whole: Tensor) -> None:
    """Copy a whole tensor, which every rank has, into a parameter that may be sharded."""
    if isinstance(parameter, DTensor):
        part = distribute_tensor(
            whole.to(parameter.dtype),
            parameter.device_mesh,
            parameter.placements,
            src_data_rank=None,
        )
        parameter.to_local().copy_(part.to_local())
    else:
        parameter.copy_(whole)


def _whole(name: str, parameter: nn.Parameter, model: Model, seed: int) -> Tensor:
    shape, device = parameter.shape, parameter.device
    start = XIELU_STARTS.get(name.rpartition(".")[2])
    if start is not None:
        return torch.full(shape, start, device=device)
    if parameter.ndim < 2:
        return torch.full(shape, 0.0 if name.endswith("bias") else 1.0, device=device)
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    generator = torch.Generator(device=device)
    generator.manual_seed(int.from_bytes(digest[:7], "big"))
    std = initial_std(name, model.settings.num_layers)
    return torch.empty(shape, device=device).normal_(std=std, generator=generator)
