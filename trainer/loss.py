"""Cross-entropy of the next token, with the head's product, on slices of the tokens.

N tokens · D hidden · V vocabulary

Unsliced logits cost about 12 bytes each (bf16, fp32, and their gradient). In slices the head's
product, the loss and both gradients are taken slice by slice in the forward, so that only one
slice of logits exists; what stays is the gradient of the hidden states and of the head's weight.
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as fn
from torch import Tensor

IGNORE_INDEX = -100


@dataclass(frozen=True, slots=True, kw_only=True)
class LossSettings:
    """chunks: slices; z_loss: factor on the squared log-partition; softcap: on the logits."""

    chunks: int = 1
    z_loss: float = 0.0
    softcap: float | None = None


def linear_cross_entropy(
    hidden_ND: Tensor,
    weight_VD: Tensor,
    bias_V: Tensor | None,
    targets_N: Tensor,
    settings: LossSettings,
) -> Tensor:
    """Sum over the tokens whose target is not IGNORE_INDEX; an fp32 scalar."""
    if settings.chunks == 1:
        logits_NV = fn.linear(hidden_ND, weight_VD, bias_V)
        return loss_of_logits(logits_NV, targets_N, settings)
    chunks = min(settings.chunks, hidden_ND.shape[0])
    result: Tensor = _SlicedLoss.apply(  # type: ignore[no-untyped-call]  # torch gives no types
        hidden_ND, weight_VD, bias_V, targets_N, settings, chunks
    )
    return result


def loss_of_logits(logits_NV: Tensor, targets_N: Tensor, settings: LossSettings) -> Tensor:
    """Summed cross-entropy (and z-loss) of logits, in fp32."""
    logits_NV = logits_NV.float()
    if settings.softcap:
        logits_NV = settings.softcap * torch.tanh(logits_NV / settings.softcap)
    loss = fn.cross_entropy(logits_NV, targets_N, ignore_index=IGNORE_INDEX, reduction="sum")
    if settings.z_loss:
        partition_N = torch.logsumexp(logits_NV, dim=-1)
        loss = loss + settings.z_loss * (partition_N.square() * (targets_N != IGNORE_INDEX)).sum()
    return loss


class _SlicedLoss(torch.autograd.Function):
    """Loss and gradients slice by slice; the backward only scales the gradients."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden_ND: Tensor,
        weight_VD: Tensor,
        bias_V: Tensor | None,
        targets_N: Tensor,
        settings: LossSettings,
        chunks: int,
    ) -> Tensor:
        total = hidden_ND.new_zeros((), dtype=torch.float32)
        wanted = hidden_ND.requires_grad or weight_VD.requires_grad
        grad_hidden_ND = torch.empty_like(hidden_ND) if wanted else None
        grad_weight_VD = torch.zeros_like(weight_VD) if wanted else None
        grad_bias_V = torch.zeros_like(bias_V) if wanted and bias_V is not None else None
        start = 0
        for part_ND in hidden_ND.tensor_split(chunks):
            stop = start + part_ND.shape[0]
            logits_NV = fn.linear(part_ND, weight_VD, bias_V)
            loss, grad_NV = _loss_and_gradient(logits_NV, targets_N[start:stop], settings)
            del logits_NV
            total += loss
            if grad_hidden_ND is not None and grad_weight_VD is not None:
                torch.mm(grad_NV, weight_VD, out=grad_hidden_ND[start:stop])
                grad_weight_VD.addmm_(grad_NV.t(), part_ND)
                if grad_bias_V is not None:
                    grad_bias_V += grad_NV.sum(dim=0)
            del grad_NV
            start = stop
        ctx.save_for_backward(grad_hidden_ND, grad_weight_VD, grad_bias_V)
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        found = tuple(saved if saved is None else saved.mul_(grad) for saved in ctx.saved_tensors)
        return (*found, None, None, None)


def _loss_and_gradient(
    logits_NV: Tensor, targets_N: Tensor, settings: LossSettings
) -> tuple[Tensor, Tensor]:
    """Summed loss, and its gradient by the logits in their own type."""
    kind = logits_NV.dtype
    values_NV = logits_NV.float()
    cap = settings.softcap
    if cap:
        values_NV = cap * torch.tanh(values_NV / cap)
    counted_N = targets_N != IGNORE_INDEX
    at_target_N1 = targets_N.clamp(min=0).unsqueeze(1)
    partition_N = torch.logsumexp(values_NV, dim=-1)
    picked_N = values_NV.gather(1, at_target_N1).squeeze(1)
    loss_N = partition_N - picked_N + settings.z_loss * partition_N.square()
    slope_NV = (1 - (values_NV / cap).square()) if cap else None
    grad_NV = values_NV.sub_(partition_N.unsqueeze(1)).exp_()
    grad_NV *= (1 + 2 * settings.z_loss * partition_N).unsqueeze(1)
    grad_NV.scatter_add_(1, at_target_N1, -torch.ones_like(picked_N).unsqueeze(1))
    grad_NV *= counted_N.unsqueeze(1)
    if slope_NV is not None:
        grad_NV *= slope_NV
    return (loss_N * counted_N).sum(), grad_NV.to(kind)
