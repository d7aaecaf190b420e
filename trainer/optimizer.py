"""AdamW with fp32, bf16 or 8-bit states, the learning rate over the run, and clipping."""

import importlib
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from trainer.errors import Unsupported
from trainer.parallel import local
from trainer.settings import RunSettings

# Elements that AdamWBf16 updates at once: bounds its fp32 temporaries to a few hundred MiB.
SLICE_ELEMENTS = 16 * 1024 * 1024


class AdamWBf16(Optimizer):
    """AdamW whose averages are kept in bf16; parameters, gradients and arithmetic are fp32.

    Loshchilov & Hutter 2019 (arXiv:1711.05101). Temporaries are bounded by SLICE_ELEMENTS.
    """

    def __init__(
        self,
        params: Iterable[Any],
        *,
        lr: float,
        betas: tuple[float, float],
        eps: float,
        weight_decay: float,
    ) -> None:
        super().__init__(
            params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        )

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One update of all parameters that have a gradient. `closure` is not used."""
        del closure
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, parameter.grad, group)

    def _update(self, parameter: Tensor, grad: Tensor, group: Mapping[str, Any]) -> None:
        state = self.state[parameter]
        if not state:
            state["step"] = torch.tensor(0.0)
            for name in ("exp_avg", "exp_avg_sq"):
                state[name] = torch.zeros_like(parameter, dtype=torch.bfloat16)
        state["step"] += 1
        flat = [
            local(tensor).view(-1)
            for tensor in (parameter, grad, state["exp_avg"], state["exp_avg_sq"])
        ]
        for parts in zip(*(tensor.split(SLICE_ELEMENTS) for tensor in flat), strict=True):
            _update_slice(*parts, group=group, step=float(state["step"]))


def _update_slice(
    weight: Tensor,
    grad: Tensor,
    average: Tensor,
    square: Tensor,
    *,
    group: Mapping[str, Any],
    step: float,
) -> None:
    beta1, beta2 = group["betas"]
    weight.mul_(1 - group["lr"] * group["weight_decay"])
    mean = average.float().lerp_(grad, 1 - beta1)
    average.copy_(mean)
    spread = square.float().mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
    square.copy_(spread)
    spread.div_(1 - beta2**step).sqrt_().add_(group["eps"])
    weight.addcdiv_(mean, spread, value=-group["lr"] / (1 - beta1**step))


def make_optimizer(model: nn.Module, kind: str, run: RunSettings) -> Optimizer:
    """The optimizer over a sharded model. Raises Unsupported where a package is missing."""
    settings: dict[str, Any] = {
        "lr": run.learning_rate,
        "betas": (run.beta1, run.beta2),
        "eps": run.epsilon,
        "weight_decay": run.weight_decay,
    }
    groups = parameter_groups(model, run.weight_decay)
    if kind == "adamw_bf16":
        return AdamWBf16(groups, **settings)
    if kind == "adamw_8bit":
        return _adamw_8bit(groups, settings)
    return torch.optim.AdamW(groups, fused=True, **settings)


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Matrices and embeddings decay; norms and biases do not."""
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


def _adamw_8bit(groups: list[dict[str, Any]], settings: dict[str, Any]) -> Optimizer:
    try:
        torchao = importlib.import_module("torchao.optim")
    except ImportError as error:
        raise Unsupported(f"optimizer adamw_8bit needs torchao: {error}") from error
    optimizer: Optimizer = torchao.AdamW8bit(groups, **settings)
    return optimizer


def create_states(optimizer: Optimizer) -> None:
    """Create the states now (they are otherwise created in the first step) without a change.

    A step with zero gradients, no decay and no speed leaves the parameters as they are.
    """
    kept = [(group["lr"], group["weight_decay"]) for group in optimizer.param_groups]
    for group in optimizer.param_groups:
        _set(group, lr=0.0, weight_decay=0.0)
        for parameter in group["params"]:
            parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    for group, (rate, decay) in zip(optimizer.param_groups, kept, strict=True):
        _set(group, lr=rate, weight_decay=decay)
    for state in optimizer.state.values():
        step = state.get("step")
        if isinstance(step, Tensor):
            step.zero_()
        elif step is not None:
            state["step"] = 0


def set_learning_rate(optimizer: Optimizer, rate: float) -> None:
    """The rate of all groups (a tensor rate is filled in place)."""
    for group in optimizer.param_groups:
        _set(group, lr=rate, weight_decay=group["weight_decay"])


def _set(group: dict[str, Any], *, lr: float, weight_decay: float) -> None:
    if isinstance(group["lr"], Tensor):
        group["lr"].fill_(lr)
    else:
        group["lr"] = lr
    group["weight_decay"] = weight_decay


def learning_rate(step: int, num_steps: int, run: RunSettings) -> float:
    """Rate of step 0 ≤ step < num_steps: warm-up, then cosine, or stable and linear decay."""
    if step < run.warmup_steps:
        return run.learning_rate * (step + 1) / run.warmup_steps
    lowest = run.min_learning_rate_fraction
    if run.schedule == "cosine":
        done = (step - run.warmup_steps) / max(1, num_steps - run.warmup_steps)
        fraction = lowest + (1 - lowest) * 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))
    else:
        decay_steps = max(1, round(num_steps * run.decay_fraction))
        left = (num_steps - step) / decay_steps
        fraction = lowest + (1 - lowest) * min(left, 1.0)
    return run.learning_rate * fraction


def clip_gradients(model: nn.Module, limit: float) -> Tensor:
    """The gradients' norm over all ranks; they are scaled to at most `limit` unless that is 0."""
    parameters = [p for p in model.parameters() if p.grad is not None]
    norm = nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
    whole = getattr(norm, "full_tensor", None)
    norm = whole() if whole is not None else norm
    if limit > 0:
        nn.utils.clip_grads_with_norm_(parameters, limit, norm)
    return norm
