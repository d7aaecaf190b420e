"""Counts and FLOPs of a shape, and what is refused as a shape."""

from dataclasses import replace

import pytest

from advisor.errors import InvalidField
from advisor.model import ModelShape, checked_shape
from advisor.model_catalog import load_models

SMALL = ModelShape(
    name="small",
    family="drawn",
    hidden_size=64,
    num_layers=3,
    num_heads=4,
    num_kv_heads=2,
    head_dim=16,
    ffn_size=96,
    vocab_size=1000,
    max_position=128,
)
ATTENTION = 64 * 64 + 64 * 32 + 64 * 32 + 64 * 64
BLOCK = ATTENTION + 3 * 64 * 96 + 2 * 64


def test_parts_of_a_plain_block() -> None:
    assert (SMALL.q_size, SMALL.kv_size) == (64, 32)
    assert SMALL.block_matmul_parameters == ATTENTION + 3 * 64 * 96
    assert SMALL.block_parameters == BLOCK
    assert SMALL.embedding_parameters == SMALL.head_parameters == 64_000
    assert SMALL.final_norm_parameters == 64
    assert SMALL.num_parameters == 2 * 64_000 + 3 * BLOCK + 64


@pytest.mark.parametrize(
    ("changes", "added"),
    [
        ({"tied_embeddings": True}, -64_000),
        ({"gated_mlp": False}, -3 * 64 * 96),
        ({"qkv_bias": True}, 3 * (64 + 2 * 32)),
        ({"attn_out_bias": True}, 3 * 64),
        ({"mlp_bias": True}, 3 * (2 * 96 + 64)),
        ({"mlp_bias": True, "gated_mlp": False}, 3 * (96 + 64 - 64 * 96)),
        ({"qk_norm": True}, 3 * 2 * 16),
        ({"qk_norm": True, "qk_norm_kind": "all"}, 3 * (64 + 32)),
        ({"qk_norm": True, "qk_norm_kind": "each_head"}, 3 * (64 + 32)),
        ({"norm": "layernorm"}, 7 * 64),
        ({"norm": "layernorm_no_bias"}, 0),
        ({"norm": "nonparametric"}, -7 * 64),
        ({"norm_layout": "post"}, 0),
        ({"norm_layout": "sandwich"}, 3 * 2 * 64),
        ({"parallel_block": "shared"}, -3 * 64),
        ({"parallel_block": "separate"}, 0),
        ({"positions": "learned"}, 128 * 64),
        ({"positions": "learned", "extra_positions": 2}, 130 * 64),
        ({"positions": "alibi"}, 0),
        ({"final_norm": False}, -64),
        ({"embedding_norm": True}, 64),
        ({"head_bias": True}, 1000),
        ({"embedding_size": 32}, -2 * 32_000 + 2 * 32 * 64),
        ({"activation_parameters": 2}, 3 * 2),
    ],
    ids=str,
)
def test_each_dimension_adds_what_it_has(changes: dict[str, object], added: int) -> None:
    shape = replace(SMALL, **changes)  # type: ignore[arg-type]  # the values fit their fields
    assert shape.num_parameters == SMALL.num_parameters + added


def test_parts_sum_to_the_whole_for_every_shipped_model() -> None:
    for model in load_models().values():
        shape = model.shape
        parts = (
            shape.embedding_parameters
            + shape.embedding_norm_parameters
            + shape.position_parameters
            + shape.projection_parameters
            + shape.num_layers * shape.block_parameters
            + shape.final_norm_parameters
            + shape.head_parameters
        )
        assert parts == shape.num_parameters
        assert (
            shape.matmul_parameters_per_token < shape.num_parameters + shape.head_matmul_parameters
        )


def test_forward_flops_of_plain_attention() -> None:
    weights = SMALL.matmul_parameters_per_token
    assert weights == 3 * SMALL.block_matmul_parameters + 64_000
    # Causal: the i-th of s tokens sees i, (s + 1) / 2 on average.
    assert SMALL.forward_flops_per_token(100) == 2 * weights + 4 * 64 * 3 * 50.5
    assert SMALL.forward_flops_per_token(100, causal=False) == 2 * weights + 4 * 64 * 3 * 100


def test_forward_flops_of_windows() -> None:
    windowed = replace(SMALL, sliding_window=10, num_windowed_layers=2)
    mean = sum(min(i, 10) for i in range(1, 101)) / 100
    weights = SMALL.matmul_parameters_per_token
    assert windowed.forward_flops_per_token(100) == pytest.approx(
        2 * weights + 4 * 64 * (2 * mean + 50.5)
    )
    everywhere = replace(windowed, num_windowed_layers=None)
    assert everywhere.forward_flops_per_token(100, causal=False) == 2 * weights + 4 * 64 * 3 * 10
    assert (windowed.attention_window(5), windowed.attention_window(100)) == (5, 10)
    assert SMALL.attention_window(100) == 100


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"hidden_size": 0}, "hidden_size"),
        ({"num_layers": -1}, "num_layers"),
        ({"num_layers": 1001}, "num_layers"),
        ({"vocab_size": 10**7 + 1}, "vocab_size"),
        ({"ffn_size": 10**9}, "ffn_size"),
        ({"num_kv_heads": 3}, "num_kv_heads"),
        ({"head_dim": 15}, "head_dim"),
        ({"sliding_window": 0}, "sliding_window"),
        ({"embedding_size": 0}, "embedding_size"),
        ({"sliding_window": 8, "num_windowed_layers": 4}, "num_windowed_layers"),
    ],
    ids=str,
)
def test_insane_sizes_are_refused_at_their_field(changes: dict[str, object], field: str) -> None:
    assert checked_shape(SMALL) is SMALL
    shape = replace(SMALL, **changes)  # type: ignore[arg-type]  # the values fit their fields
    with pytest.raises(InvalidField) as caught:
        checked_shape(shape, field="model.config")
    assert caught.value.field == f"model.config.{field}"


def test_an_odd_head_is_fine_where_nothing_rotates() -> None:
    assert checked_shape(replace(SMALL, head_dim=15, positions="alibi"))
