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

    @property
    def embedding_parameters(self) -> int:
        return self.vocab_size * self.hidden_size

    @property
    def position_parameters(self) -> int:
        return self.max_position * self.hidden_size if self.positions == "learned" else 0

    @property
    def head_parameters(self) -> int:
        """Parameters of the output head beside the embedding; 0 when tied."""
        return 0 if self.tied_embeddings else self.vocab_size * self.hidden_size

    @property
    def head_matmul_parameters(self) -> int:
        return self.vocab_size * self.hidden_size

    @property
    def block_matmul_parameters(self) -> int:
        """Weights of the matrix products of one block."""
        attention = self.hidden_size * 2 * (self.q_size + self.kv_size)
        return attention + (3 if self.gated_mlp else 2) * self.hidden_size * self.ffn_size

    @property
    def block_parameters(self) -> int:
        return self.block_matmul_parameters + 2 * self.hidden_size

    @property
    def num_parameters(self) -> int:
        return (
            self.embedding_parameters
            + self.position_parameters
            + self.head_parameters
            + self.num_layers * self.block_parameters
            + self.hidden_size
        )
