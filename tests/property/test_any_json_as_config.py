"""Whatever JSON comes as a config.json, nothing but an AdvisorError comes back."""

from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.errors import AdvisorError
from advisor.model import ModelShape
from advisor.model_config import FAMILIES, shape_from_config
from advisor.model_size import shape_from_size

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(1, 10_000),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from([0, 1, -1, 2**63, 10**4000, 1e300, float("nan"), "8", "x" * 1000, "\ud800"]),
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=8,
)
GOOD: dict[str, Any] = {
    "hidden_size": 64,
    "n_embd": 64,
    "d_model": 64,
    "num_hidden_layers": 2,
    "n_layer": 2,
    "num_layers": 2,
    "n_layers": 2,
    "num_attention_heads": 4,
    "n_head": 4,
    "num_heads": 4,
    "n_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "ffn_dim": 128,
    "vocab_size": 1000,
    "architectures": ["LlamaForCausalLM"],
}
# Everything that some family reads.
KEYS = (
    *GOOD,
    *("head_dim", "max_position_embeddings", "rope_theta", "rope_scaling", "rope_parameters"),
    *("tie_word_embeddings", "hidden_act", "rms_norm_eps", "attention_bias", "bias", "use_bias"),
    *("sliding_window", "use_sliding_window", "max_window_layers", "layer_types", "attn_config"),
    *("sliding_window_pattern", "partial_rotary_factor", "rotary_pct", "rotary_dim", "model_type"),
    *("num_local_experts", "is_encoder_decoder", "quantization_config", "text_config"),
    *("query_pre_attn_scalar", "final_logit_softcapping", "attention_layers", "n_inner"),
    *("logits_scaling", "scale_depth", "dim_model_base", "scale_emb", "n_shared_head"),
    *("expansion_ratio", "num_kv_heads", "new_decoder_architecture", "multi_query", "alibi"),
    *("num_ln_in_parallel_attn", "word_embed_proj_dim", "no_rope_layers", "_name_or_path"),
    *("no_rope_layer_interval", "window_size", "logit_scale", "embedding_multiplier"),
)
TYPES = st.sampled_from([*FAMILIES, "gemma3", "mistral3"])


def refusal(make: Callable[[], ModelShape]) -> AdvisorError | None:
    """The error, or None for a sane shape; any other exception fails the test."""
    try:
        shape = make()
    except AdvisorError as error:
        return error
    assert 0 < shape.num_parameters < 2**63
    assert shape.num_heads % shape.num_kv_heads == 0
    return None


def is_clear(error: AdvisorError | None, field: str) -> bool:
    return error is None or (error.field.startswith(field) and 0 < len(error.detail) < 2000)


@given(JSON)
def test_any_json(config: Any) -> None:
    error = refusal(lambda: shape_from_config(config))
    assert error is not None
    assert is_clear(error, "model.config")


@settings(max_examples=400, deadline=None)
@given(TYPES, st.dictionaries(st.sampled_from(KEYS), JSON, max_size=4))
def test_good_configs_with_odd_values(model_type: str, odd: dict[str, Any]) -> None:
    config = {**GOOD, "model_type": model_type, **odd}
    assert is_clear(refusal(lambda: shape_from_config(config)), "model.config")


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(["rope_scaling", "rope_parameters"]),
    st.dictionaries(
        st.sampled_from(["rope_type", "type", "factor", "full_attention", "rope_theta"]),
        st.one_of(JSON, st.sampled_from(["llama3", "yarn", "linear", 8.0])),
    ),
)
def test_odd_rotary_scalings(key: str, scaling: dict[str, Any]) -> None:
    config = {**GOOD, "model_type": "llama", key: scaling}
    assert is_clear(refusal(lambda: shape_from_config(config)), f"model.config.{key}")


@settings(deadline=None)
@given(JSON)
def test_any_json_as_size(size_b: Any) -> None:
    assert is_clear(refusal(lambda: shape_from_size(size_b).shape), "model.size_b")
