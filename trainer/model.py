"""The model, and nothing but the model: a dense decoder with its loss.

B batch · T tokens · D hidden · H query heads · K key/value heads · A head width · F MLP width ·
V vocabulary · N = B × T
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import torch
import torch.nn.functional as fn
from torch import Tensor, nn

from trainer.errors import Unsupported
from trainer.kernels import PORTABLE, Kernels
from trainer.layers import masks, rotated_layers, windowed_layers
from trainer.loss import LossSettings, linear_cross_entropy
from trainer.rope import rotate, scaling_of, tables
from trainer.settings import ModelSettings

INIT_STD = 0.02


def _gelu_tanh(x: Tensor) -> Tensor:
    return fn.gelu(x, approximate="tanh")


def _relu_squared(x: Tensor) -> Tensor:
    return fn.relu(x).square()


ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "silu": fn.silu,
    "gelu": fn.gelu,
    "gelu_tanh": _gelu_tanh,
    "gelu_new": _gelu_tanh,
    "gelu_pytorch_tanh": _gelu_tanh,
    "relu": fn.relu,
    "relu2": _relu_squared,
}


class Xielu(nn.Module):
    """xIELU, with a trainable slope on either side: Huang and Schlag 2024 (arXiv:2411.13010)."""

    BETA, START = 0.5, 0.8

    def __init__(self) -> None:
        super().__init__()
        self.alpha_p = nn.Parameter(torch.empty(1))
        self.alpha_n = nn.Parameter(torch.empty(1))

    def forward(self, x: Tensor) -> Tensor:
        above = fn.softplus(self.alpha_p) * x * x
        # Just below zero, where the difference would lose its digits.
        below = (torch.expm1(x.clamp(max=-1e-6)) - x) * (self.BETA + fn.softplus(self.alpha_n))
        return torch.where(x > 0, above, below) + self.BETA * x


class Norm(nn.Module):
    """RMS or layer norm over the last `size` elements; `heads` have a weight of their own each."""

    def __init__(
        self,
        size: int,
        model: ModelSettings,
        kernels: Kernels,
        *,
        bias: bool = True,
        heads: int = 1,
    ) -> None:
        super().__init__()
        self.size, self.eps, self.kind, self.kernels = size, model.norm_eps, model.norm, kernels
        self.heads = heads
        has_weight, has_bias = model.norm != "nonparametric", bias and model.norm == "layernorm"
        self.weight = nn.Parameter(torch.empty(heads * size)) if has_weight else None
        self.bias = nn.Parameter(torch.empty(size)) if has_bias else None

    def forward(self, x: Tensor) -> Tensor:
        if self.heads > 1 and self.weight is not None:
            return self._normed(x, None) * self.weight.view(self.heads, self.size)
        return self._normed(x, self.weight)

    def _normed(self, x: Tensor, weight: Tensor | None) -> Tensor:
        if self.kind == "rmsnorm":
            return self.kernels.rms_norm(x, weight, self.eps)
        return fn.layer_norm(x, (self.size,), weight, self.bias, self.eps)


class Attention(nn.Module):
    """Causal attention with grouped keys and values."""

    def __init__(self, model: ModelSettings, kernels: Kernels) -> None:
        super().__init__()
        self.model, self.kernels = model, kernels
        q_size, kv_size = model.num_heads * model.head_dim, model.num_kv_heads * model.head_dim
        self.q = nn.Linear(model.hidden_size, q_size, bias=model.qkv_bias)
        self.k = nn.Linear(model.hidden_size, kv_size, bias=model.qkv_bias)
        self.v = nn.Linear(model.hidden_size, kv_size, bias=model.qkv_bias)
        self.o = nn.Linear(q_size, model.hidden_size, bias=model.attn_out_bias)
        self.q_norm = self.k_norm = None
        if model.qk_norm:
            self.q_norm = self._qk_norm(model.num_heads)
            self.k_norm = self._qk_norm(model.num_kv_heads)
        self.scale = model.attention_scale or model.head_dim**-0.5

    def forward(
        self, x_BTD: Tensor, cos_TA: Tensor | None, sin_TA: Tensor | None, mask: Tensor | None
    ) -> Tensor:
        batch, length, _ = x_BTD.shape
        q_BHTA = self._heads(self.q(x_BTD), self.q_norm)
        k_BKTA = self._heads(self.k(x_BTD), self.k_norm)
        v_BKTA = self._heads(self.v(x_BTD), None)
        if cos_TA is not None and sin_TA is not None:
            q_BHTA, k_BKTA = rotate(q_BHTA, cos_TA, sin_TA), rotate(k_BKTA, cos_TA, sin_TA)
        out_BHTA = self.kernels.attention(q_BHTA, k_BKTA, v_BKTA, mask, self.scale)
        out: Tensor = self.o(out_BHTA.transpose(1, 2).reshape(batch, length, -1))
        return out

    def _qk_norm(self, num_heads: int) -> Norm:
        kind, size = self.model.qk_norm_kind, self.model.head_dim
        size = size * num_heads if kind == "all" else size
        heads = num_heads if kind == "each_head" else 1
        return Norm(size, self.model, self.kernels, bias=False, heads=heads)

    def _heads(self, x: Tensor, norm: nn.Module | None) -> Tensor:
        """(B, T, heads · A) → (B, heads, T, A), normed over heads together or one by one."""
        if norm is not None and self.model.qk_norm_kind == "all":
            x, norm = norm(x), None
        x = x.unflatten(-1, (-1, self.model.head_dim))
        if norm is not None:
            x = norm(x)
        return x.transpose(1, 2)


class Mlp(nn.Module):
    """Gated or plain MLP."""

    def __init__(self, model: ModelSettings) -> None:
        super().__init__()
        width, hidden, bias = model.ffn_size, model.hidden_size, model.mlp_bias
        self.gate = nn.Linear(hidden, width, bias=bias) if model.gated_mlp else None
        self.up = nn.Linear(hidden, width, bias=bias)
        self.down = nn.Linear(width, hidden, bias=bias)
        self.activation = Xielu() if model.activation == "xielu" else ACTIVATIONS[model.activation]

    def forward(self, x_BTD: Tensor) -> Tensor:
        if self.gate is None:
            x_BTF = self.activation(self.up(x_BTD))
        else:
            x_BTF = self.activation(self.gate(x_BTD)) * self.up(x_BTD)
        out: Tensor = self.down(x_BTF)
        return out


class Block(nn.Module):
    """Attention and MLP on the residual stream, with norms before, after or both."""

    def __init__(self, model: ModelSettings, kernels: Kernels) -> None:
        super().__init__()
        self.parallel = model.parallel_block
        self.residual_scale = model.residual_scale
        before, after = model.norm_layout != "post", model.norm_layout != "pre"
        self.attn = Attention(model, kernels)
        self.mlp = Mlp(model)
        hidden = model.hidden_size
        two = self.parallel != "shared"
        self.attn_norm = Norm(hidden, model, kernels) if before else None
        self.mlp_norm = Norm(hidden, model, kernels) if before and two else None
        self.post_attn_norm = Norm(hidden, model, kernels) if after else None
        self.post_mlp_norm = Norm(hidden, model, kernels) if after else None

    def forward(
        self, x_BTD: Tensor, cos_TA: Tensor | None, sin_TA: Tensor | None, mask: Tensor | None
    ) -> Tensor:
        normed_BTD = _apply(self.attn_norm, x_BTD)
        attended_BTD = _apply(self.post_attn_norm, self.attn(normed_BTD, cos_TA, sin_TA, mask))
        attended_BTD = self._scaled(attended_BTD)
        if self.parallel == "shared":
            return x_BTD + attended_BTD + self._scaled(_apply(self.mlp, normed_BTD))
        if self.parallel == "separate":
            beside_BTD = _apply(self.mlp, _apply(self.mlp_norm, x_BTD))
            return x_BTD + attended_BTD + self._scaled(beside_BTD)
        x_BTD = x_BTD + attended_BTD
        added_BTD = _apply(self.post_mlp_norm, self.mlp(_apply(self.mlp_norm, x_BTD)))
        return x_BTD + self._scaled(added_BTD)

    def _scaled(self, x_BTD: Tensor) -> Tensor:
        return x_BTD if self.residual_scale == 1.0 else x_BTD * self.residual_scale


class Head(nn.Module):
    """Final norm, the product with the vocabulary, and the loss."""

    def __init__(self, model: ModelSettings, kernels: Kernels) -> None:
        super().__init__()
        self.norm = Norm(model.hidden_size, model, kernels) if model.final_norm else None
        size = model.embedding_size or model.hidden_size
        self.project = None
        if model.embedding_size:
            self.project = nn.Linear(model.hidden_size, size, bias=False)
        # On the hidden states, where it costs less than on the logits and is the same.
        self.scale = model.logit_scale
        self.weight = nn.Parameter(torch.empty(model.vocab_size, size))
        self.bias = nn.Parameter(torch.empty(model.vocab_size)) if model.head_bias else None

    def forward(self, x_BTD: Tensor, targets_BT: Tensor | None, loss: LossSettings) -> Tensor:
        """Summed loss, or the logits (B, T, V) where there are no targets."""
        hidden_BTD = _apply(self.project, _apply(self.norm, x_BTD))
        if self.scale != 1.0:
            hidden_BTD = hidden_BTD * self.scale
        if targets_BT is None:
            logits_BTV = fn.linear(hidden_BTD, self.weight, self.bias)
            cap = loss.softcap
            return cap * torch.tanh(logits_BTV / cap) if cap else logits_BTV
        return linear_cross_entropy(
            hidden_BTD.flatten(0, 1), self.weight, self.bias, targets_BT.flatten(), loss
        )


class Model(nn.Module):
    """Embedding, blocks, head. `blocks` may be wrapped."""

    def __init__(
        self,
        model: ModelSettings,
        *,
        loss: LossSettings | None = None,
        kernels: Kernels = PORTABLE,
        num_positions: int | None = None,
    ) -> None:
        """Build on the current default device; weights are not initialised.

        num_positions: rows of the rotary tables (at least the longest sequence).
        Raises Unsupported for what this model does not have.
        """
        super().__init__()
        if model.logit_scale != 1.0 and model.head_bias:
            raise Unsupported("logit_scale together with head_bias")
        scaling_of(model)
        self.settings = model
        self.loss_settings = loss or LossSettings(softcap=model.logit_softcap)
        size = model.embedding_size or model.hidden_size
        self.embed = nn.Embedding(model.vocab_size, size)
        self.project = None
        if model.embedding_size:
            self.project = nn.Linear(size, model.hidden_size, bias=False)
        self.embed_norm = Norm(model.hidden_size, model, kernels) if model.embedding_norm else None
        learned = model.positions == "learned"
        rows = model.max_position + model.extra_positions
        self.pos = nn.Embedding(rows, model.hidden_size) if learned else None
        self.blocks = nn.ModuleList(Block(model, kernels) for _ in range(model.num_layers))
        self.head = Head(model, kernels)
        if model.tied_embeddings:
            self.head.weight = self.embed.weight  # type: ignore[assignment]  # is a Parameter
        self.windowed, self.rotated = windowed_layers(model), rotated_layers(model)
        self.num_positions = num_positions or model.max_position
        for name in ("cos_TA", "sin_TA", "near_cos_TA", "near_sin_TA"):
            self.register_buffer(name, None, persistent=False)

    def make_tables(self, device: torch.device) -> None:
        """Fill the rotary tables, once the model is on its device.

        Where only some layers have a window, those rotate without the scaling (as OLMo 3 does).
        """
        if self.settings.positions != "rope":
            return
        cos_TA, sin_TA = tables(self.settings, self.num_positions)
        self.cos_TA, self.sin_TA = cos_TA.to(device), sin_TA.to(device)
        self.near_cos_TA, self.near_sin_TA = self.cos_TA, self.sin_TA
        if self.settings.rope_scaling and len(set(self.windowed)) > 1:
            near = replace(self.settings, rope_scaling="")
            cos_TA, sin_TA = tables(near, self.num_positions)
            self.near_cos_TA, self.near_sin_TA = cos_TA.to(device), sin_TA.to(device)

    def forward(
        self,
        tokens_BT: Tensor,
        targets_BT: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """Summed loss (fp32 scalar) with targets, else logits (B, T, V).

        mask (B, 1, T, T): True where a token may look, where documents say so.
        """
        x_BTD = _apply(self.embed_norm, _apply(self.project, self.embed(tokens_BT)))
        length = tokens_BT.shape[1]
        if self.pos is not None:
            places_T = torch.arange(length, device=tokens_BT.device)
            x_BTD = x_BTD + self.pos(places_T + self.settings.extra_positions)
        if self.settings.embedding_scale != 1.0:
            # In the type of the activations, as the published models do.
            x_BTD = x_BTD * torch.tensor(self.settings.embedding_scale, dtype=x_BTD.dtype)
        everywhere, near = masks(self.settings, mask, length, x_BTD)
        turns = self._turns(length, x_BTD.dtype)
        layers = zip(self.blocks, self.windowed, self.rotated, strict=True)
        for block, is_windowed, is_rotated in layers:
            cos_TA, sin_TA = turns[is_windowed] if is_rotated else (None, None)
            x_BTD = block(x_BTD, cos_TA, sin_TA, near if is_windowed else everywhere)
        out: Tensor = self.head(x_BTD, targets_BT, self.loss_settings)
        return out

    def _turns(self, length: int, dtype: torch.dtype) -> tuple[tuple[Tensor | None, ...], ...]:
        """Cosines and sines (T, A) of blocks that see everything, and of windowed ones.

        Cast once here, or each block would keep its own copy.
        """
        pairs = ((self.cos_TA, self.sin_TA), (self.near_cos_TA, self.near_sin_TA))
        cast = {
            id(table): table[:length].to(dtype)
            for pair in pairs
            for table in pair
            if table is not None
        }
        return tuple(tuple(cast.get(id(table)) for table in pair) for pair in pairs)


def num_parameters(model: nn.Module) -> int:
    """All parameters, a shared one counted once."""
    return sum(parameter.numel() for parameter in model.parameters())


def initial_std(name: str, num_layers: int) -> float:
    """Spread of a matrix's initial weights: smaller where it ends on the residual stream."""
    residual = name.endswith(("attn.o.weight", "mlp.down.weight"))
    return INIT_STD / math.sqrt(2 * num_layers) if residual else INIT_STD


def _apply(module: nn.Module | None, x: Tensor) -> Tensor:
    if module is None:
        return x
    out: Tensor = module(x)
    return out
