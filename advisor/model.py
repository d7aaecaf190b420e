"""ModelShape: dimensions of a dense decoder → exact parameter counts.

Counting laws: the shapes of the parameters in the models' own programs (Vaswani et al. 2017,
arXiv:1706.03762, section 3; Shazeer 2020, arXiv:2002.05202, for gated MLPs; Ainslie et al. 2023,
arXiv:2305.13245, for grouped keys and values). The counts are held against published ones in
tests/published.
"""

from dataclasses import dataclass
from typing import Literal

from advisor.errors import InvalidField

Positions = Literal["rope", "learned", "alibi", "none"]
Norm = Literal["rmsnorm", "layernorm", "layernorm_no_bias", "nonparametric"]
NormLayout = Literal["pre", "post", "sandwich"]
ParallelBlock = Literal["none", "shared", "separate"]
QkNormKind = Literal["head", "all", "each_head"]

# Weights and biases that a norm has per element.
_NORM_VECTORS: dict[Norm, int] = {
    "rmsnorm": 1,
    "layernorm": 2,
    "layernorm_no_bias": 1,
    "nonparametric": 0,
}
# Far above every published dense decoder, and small enough that no count overflows an int64.
LIMITS: dict[str, int] = {
    "hidden_size": 262_144,
    "num_layers": 1_000,
    "num_heads": 4_096,
    "num_kv_heads": 4_096,
    "head_dim": 8_192,
    "ffn_size": 4_194_304,
    "vocab_size": 10_000_000,
    "max_position": 1_000_000_000,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """A dense decoder-only transformer.

    Sizes are element counts. ffn_size is the width of one up projection. head_dim is apart from
    hidden_size / num_heads. Parameters of a tied head are counted once, in the embedding.

    norm_layout: norms before attention and MLP, after them, or both ("sandwich": four a block).
    parallel_block: attention and MLP side by side, behind one norm ("shared") or one each.
    qk_norm_kind: one weight of head_dim for all heads ("head"), one norm over all heads together
        ("all"), or a weight of its own for each head ("each_head"). These norms have no bias.
    sliding_window: tokens that attention looks back, in `num_windowed_layers` layers (None: all).
    rotary_fraction: share of a head that is rotated, in all but `num_unrotated_layers` layers.
    extra_positions: rows of a learned position table beside max_position (OPT has 2).
    embedding_size: width of the embedding where it is not hidden_size, projected in and out (OPT).
    activation_parameters: trainable scalars in the activation of one block (xIELU has 2).

    Without influence on counts, memory or speed, for the training program only; at their defaults
    where a source does not state them: norm_eps, rope_scaling (JSON in Hugging Face's form),
    the scales (factors) and the soft caps.
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
    num_windowed_layers: int | None = None
    norm_layout: NormLayout = "pre"
    parallel_block: ParallelBlock = "none"
    qk_norm_kind: QkNormKind = "head"
    final_norm: bool = True
    embedding_norm: bool = False
    head_bias: bool = False
    extra_positions: int = 0
    embedding_size: int | None = None
    activation_parameters: int = 0
    rotary_fraction: float = 1.0
    num_unrotated_layers: int = 0
    rope_scaling: str = ""
    norm_eps: float = 1e-5
    embedding_scale: float = 1.0
    attention_scale: float | None = None
    residual_scale: float = 1.0
    logit_scale: float = 1.0
    logit_softcap: float | None = None
    attn_softcap: float | None = None

    @property
    def q_size(self) -> int:
        """Width of the query projection (heads × head_dim)."""
        return self.num_heads * self.head_dim

    @property
    def kv_size(self) -> int:
        """Width of the key projection, and of the value projection."""
        return self.num_kv_heads * self.head_dim

    @property
    def embedding_width(self) -> int:
        """Width of one row of the embedding."""
        return self.hidden_size if self.embedding_size is None else self.embedding_size

    @property
    def embedding_parameters(self) -> int:
        """The token embedding."""
        return self.vocab_size * self.embedding_width

    @property
    def position_parameters(self) -> int:
        """The learned position table; 0 with any other positions."""
        rows = self.max_position + self.extra_positions
        return rows * self.hidden_size if self.positions == "learned" else 0

    @property
    def projection_parameters(self) -> int:
        """Projections between the embedding's width and the hidden size, in and out."""
        return 0 if self.embedding_size is None else 2 * self.embedding_size * self.hidden_size

    @property
    def head_parameters(self) -> int:
        """Parameters of the output head beside the embedding, its bias too; no matrix when tied."""
        matrix = 0 if self.tied_embeddings else self.vocab_size * self.embedding_width
        return matrix + (self.vocab_size if self.head_bias else 0)

    @property
    def head_matmul_parameters(self) -> int:
        """Weights of the product with the vocabulary, tied or not."""
        return self.vocab_size * self.embedding_width

    @property
    def block_matmul_parameters(self) -> int:
        """Weights of the matrix products of one block."""
        attention = self.hidden_size * 2 * (self.q_size + self.kv_size)
        return attention + (3 if self.gated_mlp else 2) * self.hidden_size * self.ffn_size

    @property
    def block_bias_parameters(self) -> int:
        """Biases of the matrix products of one block."""
        up_projections = 2 if self.gated_mlp else 1
        return (
            self.qkv_bias * (self.q_size + 2 * self.kv_size)
            + self.attn_out_bias * self.hidden_size
            + self.mlp_bias * (up_projections * self.ffn_size + self.hidden_size)
        )

    @property
    def num_block_norms(self) -> int:
        """Norms over the hidden size in one block."""
        if self.norm_layout == "sandwich":
            return 4
        return 1 if self.parallel_block == "shared" else 2

    @property
    def norm_parameters(self) -> int:
        """Parameters of one norm over the hidden size."""
        return _NORM_VECTORS[self.norm] * self.hidden_size

    @property
    def qk_norm_parameters(self) -> int:
        """Weights of the norms on queries and keys of one block."""
        if not self.qk_norm:
            return 0
        return 2 * self.head_dim if self.qk_norm_kind == "head" else self.q_size + self.kv_size

    @property
    def block_parameters(self) -> int:
        """All parameters of one block."""
        return (
            self.block_matmul_parameters
            + self.block_bias_parameters
            + self.num_block_norms * self.norm_parameters
            + self.qk_norm_parameters
            + self.activation_parameters
        )

    @property
    def final_norm_parameters(self) -> int:
        """Parameters of the norm before the head; 0 without one."""
        return self.norm_parameters if self.final_norm else 0

    @property
    def embedding_norm_parameters(self) -> int:
        """Parameters of the norm after the embedding; 0 without one."""
        return self.norm_parameters if self.embedding_norm else 0

    @property
    def num_parameters(self) -> int:
        """All parameters, a tied matrix counted once; buffers are not parameters."""
        return (
            self.embedding_parameters
            + self.embedding_norm_parameters
            + self.position_parameters
            + self.projection_parameters
            + self.num_layers * self.block_parameters
            + self.final_norm_parameters
            + self.head_parameters
        )

    @property
    def matmul_parameters_per_token(self) -> int:
        """Weights that each token is multiplied with in one forward."""
        blocks = self.num_layers * self.block_matmul_parameters
        return blocks + self.head_matmul_parameters + self.projection_parameters

    def attention_window(self, seq_len: float) -> float:
        """Tokens that a windowed layer can look back on in a sequence of seq_len tokens."""
        return seq_len if self.sliding_window is None else min(seq_len, self.sliding_window)

    def forward_flops_per_token(self, seq_len: int, *, causal: bool = True) -> float:
        """FLOPs of one token's forward: matrix products and attention's scores and sums.

        causal: only pairs of tokens that attention looks at, averaged over the sequence. False
        counts seq_len pairs a token (a window at most), as Chowdhery et al. 2022 (PaLM,
        arXiv:2204.02311, appendix B) do.
        """
        pairs = self.num_layers * self.attended_tokens(seq_len, causal=causal)
        return 2 * self.matmul_parameters_per_token + 4 * self.q_size * pairs

    def attended_tokens(self, seq_len: float, *, causal: bool = True) -> float:
        """Tokens that a token looks back on in one layer, averaged over layers and sequence."""
        windowed = 0 if self.sliding_window is None else self.num_windowed_layers
        windowed = self.num_layers if windowed is None else windowed
        window = self.attention_window(seq_len)
        pairs = windowed * _pairs_per_token(seq_len, window, causal=causal)
        pairs += (self.num_layers - windowed) * _pairs_per_token(seq_len, seq_len, causal=causal)
        return pairs / self.num_layers


def _pairs_per_token(seq_len: float, window: float, *, causal: bool) -> float:
    """Keys that a query sees, averaged over a sequence: Σ min(i, window) / seq_len for i = 1…."""
    return window - window * (window - 1) / (2 * seq_len) if causal else float(window)


def checked_shape(shape: ModelShape, *, field: str = "model") -> ModelShape:
    """The shape itself if its sizes are sane. Raises InvalidField at `field`.<dimension>."""
    for name, limit in LIMITS.items():
        value = getattr(shape, name)
        if not 1 <= value <= limit:
            raise InvalidField(f"{field}.{name}", f"must be from 1 to {limit}, not {value}")
    if shape.num_heads % shape.num_kv_heads:
        raise InvalidField(
            f"{field}.num_kv_heads",
            f"{shape.num_kv_heads} must divide num_heads {shape.num_heads}: "
            "query heads share key and value heads in equal groups",
        )
    if shape.positions == "rope" and shape.head_dim % 2:
        raise InvalidField(
            f"{field}.head_dim", f"{shape.head_dim} must be even: rotary positions turn pairs"
        )
    _check_optional(shape, field)
    return shape


def _check_optional(shape: ModelShape, field: str) -> None:
    for name, limit in (("sliding_window", "max_position"), ("embedding_size", "hidden_size")):
        value = getattr(shape, name)
        if value is not None and not 1 <= value <= LIMITS[limit]:
            raise InvalidField(f"{field}.{name}", f"must be from 1 to {LIMITS[limit]}, not {value}")
    if not 0 <= (shape.num_windowed_layers or 0) <= shape.num_layers:
        raise InvalidField(f"{field}.num_windowed_layers", "must be from 0 to num_layers")
