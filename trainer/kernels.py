"""The two operations that have kernels of their own: RMS norm and attention.

B batch · H query heads · K key/value heads · T tokens · A head width

PORTABLE lets torch choose. CUDA_SAVED_TENSORS calls the operations that torch chooses on a CUDA
GPU, so that a simulation on a CPU saves the same tensors for the backward as that GPU would
(flash attention keeps its log-sum-exp, the fused norm its inverse root, and neither more).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
import torch.nn.functional as fn
from torch import Tensor

NormKernel: TypeAlias = Callable[[Tensor, Tensor | None, float], Tensor]
# (q_BHTA, k_BKTA, v_BKTA, mask or None for causal, scale) → out_BHTA
AttentionKernel: TypeAlias = Callable[[Tensor, Tensor, Tensor, Tensor | None, float], Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernels:
    """rms_norm(x, weight, eps); attention(q_BHTA, k_BKTA, v_BKTA, mask_BTT, scale)."""

    rms_norm: NormKernel
    attention: AttentionKernel


def _rms_norm(x: Tensor, weight: Tensor | None, eps: float) -> Tensor:
    return fn.rms_norm(x, (x.shape[-1],), weight, eps)


def _attention(
    q_BHTA: Tensor, k_BKTA: Tensor, v_BKTA: Tensor, mask: Tensor | None, scale: float
) -> Tensor:
    return fn.scaled_dot_product_attention(
        q_BHTA,
        k_BKTA,
        v_BKTA,
        attn_mask=mask,
        is_causal=mask is None,
        scale=scale,
        enable_gqa=q_BHTA.shape[1] != k_BKTA.shape[1],
    )


@torch.library.custom_op("shardwise::fused_rms_norm", mutates_args=())
def _fused_rms_norm(x: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """The norm and its inverse root in fp32, as aten::_fused_rms_norm gives them on a GPU.

    On a CPU that operation is taken apart, and its parts keep fp32 copies of the input.
    """
    inverse = torch.rsqrt(x.float().square().mean(dim=-1, keepdim=True) + eps)
    return (x.float() * inverse).to(x.dtype) * weight, inverse


@_fused_rms_norm.register_fake
def _(x: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    del weight, eps
    return torch.empty_like(x), x.new_empty((*x.shape[:-1], 1), dtype=torch.float32)


@torch.library.custom_op("shardwise::fused_rms_norm_backward", mutates_args=())
def _fused_rms_norm_backward(
    grad: Tensor, x: Tensor, inverse: Tensor, weight: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradients by x and by the weight."""
    normed = x.float() * inverse
    by_normed = grad.float() * weight.float()
    pulled = (by_normed * normed).mean(dim=-1, keepdim=True)
    by_weight = (grad.float() * normed).flatten(0, -2).sum(dim=0)
    return ((by_normed - normed * pulled) * inverse).to(x.dtype), by_weight.to(weight.dtype)


@_fused_rms_norm_backward.register_fake
def _(grad: Tensor, x: Tensor, inverse: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    del grad, inverse
    return torch.empty_like(x), torch.empty_like(weight)


def _save(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(inputs[0], inputs[1], output[1])


def _differentiate(ctx: Any, grad: Tensor, _: Any) -> tuple[Tensor, Tensor, None]:
    x, weight, inverse = ctx.saved_tensors
    by_x, by_weight = _fused_rms_norm_backward(grad, x, inverse, weight)
    return by_x, by_weight, None


_fused_rms_norm.register_autograd(_differentiate, setup_context=_save)


def _cuda_rms_norm(x: Tensor, weight: Tensor | None, eps: float) -> Tensor:
    if weight is None:
        return _rms_norm(x, weight, eps)
    normed: Tensor = _fused_rms_norm(x, weight, eps)[0]
    return normed


def _cuda_attention(
    q_BHTA: Tensor, k_BKTA: Tensor, v_BKTA: Tensor, mask: Tensor | None, scale: float
) -> Tensor:
    if mask is not None:
        return _attention(q_BHTA, k_BKTA, v_BKTA, mask, scale)
    out_BHTA: Tensor = torch.ops.aten._scaled_dot_product_flash_attention(
        q_BHTA, k_BKTA, v_BKTA, is_causal=True, scale=scale
    )[0]
    return out_BHTA


PORTABLE = Kernels(rms_norm=_rms_norm, attention=_attention)
CUDA_SAVED_TENSORS = Kernels(rms_norm=_cuda_rms_norm, attention=_cuda_attention)
