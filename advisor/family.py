"""Family: where one model_type's config.json keeps its dimensions, and what its program fixes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

# How a family says which layers look back through a window only: in none; in all, where
# sliding_window is set; with use_sliding_window, from max_window_layers on; in all but each n-th.
Windows = Literal["none", "all", "flag", "pattern"]
Flags = Mapping[str, tuple[str, bool]]

STANDARD_KEYS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "hidden_size": ("hidden_size",),
        "num_layers": ("num_hidden_layers",),
        "num_heads": ("num_attention_heads",),
        "num_kv_heads": ("num_key_value_heads",),
        "head_dim": ("head_dim",),
        "ffn_size": ("intermediate_size",),
        "vocab_size": ("vocab_size",),
        "max_position": ("max_position_embeddings",),
    }
)
ATTENTION_BIAS: Flags = {
    "qkv_bias": ("attention_bias", False),
    "attn_out_bias": ("attention_bias", False),
}
ALL_BIASES = {"qkv_bias": True, "attn_out_bias": True, "mlp_bias": True}


def all_biases_from(key: str, *, default: bool) -> Flags:
    """All three kinds of bias under one key."""
    return dict.fromkeys(ALL_BIASES, (key, default))


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One model_type.

    keys: accepted keys of a dimension, the usual one first, where they are not STANDARD_KEYS; an
        empty tuple where the family has no such dimension.
    defaults: dimensions that a config may leave out. Without one, num_kv_heads are num_heads and
        head_dim is hidden_size / num_heads; the others must be there.
    ffn_multiple: ffn_size / hidden_size where the config does not say; 0 where it must.
    tied: tie_word_embeddings where the config does not say.
    flags: boolean fields of the shape, each with the key that sets it and its default.
    fixed: fields of the shape that the family's program fixes.
    window: sliding_window where the config does not say; every: each n-th layer attends fully.
    """

    architecture: str
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    defaults: Mapping[str, int] = field(default_factory=dict)
    ffn_multiple: int = 0
    tied: bool = False
    flags: Flags = field(default_factory=dict)
    fixed: Mapping[str, object] = field(default_factory=dict)
    activation_key: str = "hidden_act"
    activation: str = "silu"
    eps_key: str = "rms_norm_eps"
    eps: float = 1e-6
    rope_theta: float = 10_000.0
    rotary_fraction: float = 1.0
    windows: Windows = "none"
    window_key: str = "sliding_window"
    window: int | None = None
    every: int = 0
