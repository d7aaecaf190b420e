"""ModelShape: dimensions of a dense decoder → exact parameter counts."""

from dataclasses import dataclass
from typing import Literal

Positions = Literal["rope", "learned", "alibi"]
Norm = Literal["rmsnorm", "layernorm", "layernorm_no_bias", "nonparametric"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """A dense decoder-only transformer.

    Sizes are element counts. ffn_size is the width of one up projection. head_dim is apart from
    hidden_size / num_heads. Parameters of a tied head are counted once, in the embedding.
    """

    name: str
    family: str
    hidden_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    ffn_size: int
    vocab_size: int
    max_position: int
    tied_embeddings: bool = False
    gated_mlp: bool = True
    activation: str = "silu"
    norm: Norm = "rmsnorm"
    qkv_bias: bool = False
    attn_out_bias: bool = False
    mlp_bias: bool = False
    qk_norm: bool = False
    positions: Positions = "rope"
    rope_theta: float | None = None
    sliding_window: int | None = None

    @property
    def q_size(self) -> int:
        """Width of the query projection (heads × head_dim)."""
        return self.num_heads * self.head_dim

    @property
    def kv_size(self) -> int:
        """Width of the key projection, and of the value projection."""
        return self.num_kv_heads * self.head_dim
