"""Configs as released give the published counts; what is not modelled is refused by name."""

import json
from typing import Any

import pytest

from advisor.config_refusals import REFUSED
from advisor.errors import InvalidField, UnknownName, UnsupportedModel
from advisor.model_catalog import load_models
from advisor.model_config import FAMILIES, shape_from_config

LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}


def standard(
    sizes: str, kv_heads: int | None = None, ffn_key: str = "intermediate_size", **more: object
) -> dict[str, Any]:
    """sizes: hidden layers heads ffn vocab."""
    keys = ("hidden_size", "num_hidden_layers", "num_attention_heads", ffn_key, "vocab_size")
    config: dict[str, Any] = dict(zip(keys, map(int, sizes.split()), strict=True))
    if kv_heads is not None:
        config["num_key_value_heads"] = kv_heads
    return {**config, **more}


# Facts of the released config.json files: the sources are in advisor/data/models.csv.
RELEASED: dict[str, dict[str, Any]] = {
    "llama-3.1-8b": standard(
        "4096 32 32 14336 128256", 8, model_type="llama", rope_scaling=LLAMA3, rope_theta=500000.0
    ),
    "llama-3.2-1b": standard(
        "2048 16 32 8192 128256", 8, model_type="llama", head_dim=64, tie_word_embeddings=True
    ),
    "mistral-nemo-12b": standard(
        "5120 40 32 14336 131072", 8, model_type="mistral", head_dim=128, sliding_window=None
    ),
    "qwen2.5-7b": standard("3584 28 28 18944 152064", 4, model_type="qwen2"),
    "qwen3-8b": standard(
        "4096 36 32 12288 151936", 8, model_type="qwen3", head_dim=128, attention_bias=False
    ),
    "gemma-2b": standard("2048 18 8 16384 256000", 1, model_type="gemma", head_dim=256),
    "gemma-2-9b": standard("3584 42 16 14336 256000", 8, model_type="gemma2", head_dim=256),
    "gemma-3-1b": standard("1152 26 4 6912 262144", 1, model_type="gemma3_text", head_dim=256),
    "phi-3-mini": standard("3072 32 32 8192 32064", 32, model_type="phi3"),
    "phi-2": standard("2560 32 32 10240 51200", 32, model_type="phi", partial_rotary_factor=0.4),
    "olmo-1b": standard("2048 16 16 8192 50304", 16, model_type="olmo", tie_word_embeddings=True),
    "olmo-2-7b": standard("4096 32 32 11008 100352", 32, model_type="olmo2"),
    "olmo-3-7b": standard(
        "4096 32 32 11008 100278",
        32,
        model_type="olmo3",
        sliding_window=4096,
        layer_types=["sliding_attention"] * 24 + ["full_attention"] * 8,
    ),
    "gpt2-xl": {
        "model_type": "gpt2",
        "n_embd": 1600,
        "n_layer": 48,
        "n_head": 25,
        "vocab_size": 50257,
        "n_positions": 1024,
        "n_ctx": 1024,
    },
    "pythia-1.4b": standard("2048 24 16 8192 50304", model_type="gpt_neox", rotary_pct=0.25),
    "gpt-j-6b": {
        "model_type": "gptj",
        "n_embd": 4096,
        "n_layer": 28,
        "n_head": 16,
        "vocab_size": 50400,
        "n_positions": 2048,
        "rotary_dim": 64,
        "n_inner": None,
        "tie_word_embeddings": False,
    },
    "gpt-neo-1.3b": {
        "model_type": "gpt_neo",
        "hidden_size": 2048,
        "num_layers": 24,
        "num_heads": 16,
        "intermediate_size": None,
        "vocab_size": 50257,
        "max_position_embeddings": 2048,
        "attention_layers": ["global", "local"] * 12,
    },
    "opt-350m": standard(
        "1024 24 16 4096 50272",
        ffn_key="ffn_dim",
        model_type="opt",
        word_embed_proj_dim=512,
        do_layer_norm_before=False,
    ),
    "opt-1.3b": standard("2048 24 32 8192 50272", ffn_key="ffn_dim", model_type="opt"),
    "bloom-560m": {
        "model_type": "bloom",
        "n_embed": 1024,
        "n_layer": 24,
        "num_attention_heads": 16,
        "vocab_size": 250880,
    },
    "mpt-7b": {
        "model_type": "mpt",
        "d_model": 4096,
        "n_layers": 32,
        "n_heads": 32,
        "vocab_size": 50432,
        "expansion_ratio": 4,
        "attn_config": {"alibi": True, "qk_ln": False},
        "no_bias": True,
    },
    "falcon-7b": standard(
        "4544 32 71 18176 65024", ffn_key="ffn_hidden_size", model_type="falcon", multi_query=True
    ),
    "falcon-40b": {
        "model_type": "falcon",
        "hidden_size": 8192,
        "num_hidden_layers": 60,
        "num_attention_heads": 128,
        "num_kv_heads": 8,
        "vocab_size": 65024,
        "new_decoder_architecture": True,
    },
    "stablelm-2-1.6b": standard(
        "2048 24 32 5632 100352", 32, model_type="stablelm", use_qkv_bias=True
    ),
    "stablelm-2-12b": standard(
        "5120 40 32 13824 100352",
        8,
        model_type="stablelm",
        use_parallel_residual=True,
        qk_layernorm=True,
    ),
    "command-r-35b": standard("8192 40 64 22528 256000", 64, model_type="cohere"),
    "starcoder2-7b": standard("4608 32 36 18432 49152", 4, model_type="starcoder2", use_bias=True),
    "granite-3.3-8b": standard(
        "4096 40 32 12800 49159", 8, model_type="granite", tie_word_embeddings=True
    ),
    "smollm3-3b": standard("2048 36 16 11008 128256", 4, model_type="smollm3"),
    "internlm2-7b": standard("4096 32 32 14336 92544", 8, model_type="internlm2", bias=False),
    "internlm-20b": standard("5120 60 40 13824 103168", model_type="internlm", bias=False),
    "baichuan2-7b": standard("4096 32 32 11008 125696", model_type="baichuan"),
    "aquila2-34b": standard("6144 60 48 24576 143973", 8, model_type="aquila"),
    "minicpm-2b": standard("2304 40 36 5760 122753", 36, model_type="minicpm"),
    "plamo-13b": standard("5120 40 40 16640 50432", model_type="plamo", n_shared_head=8),
    "glm-4-9b": standard(
        "4096 40 32 13696 151552", 2, model_type="glm", head_dim=128, attention_bias=True
    ),
    "glm-4-32b-0414": standard(
        "6144 61 48 23040 151552", 2, model_type="glm4", head_dim=128, attention_bias=False
    ),
    "exaone-3.5-2.4b": {
        "model_type": "exaone",
        "hidden_size": 2560,
        "num_layers": 30,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "intermediate_size": 7168,
        "vocab_size": 102400,
    },
    "exaone-4.0-32b": standard(
        "5120 64 40 27392 102400", 8, model_type="exaone4", sliding_window_pattern="LLLG"
    ),
    "minitron-4b": standard("3072 32 24 9216 256000", 8, model_type="nemotron", head_dim=128),
    "apertus-8b": standard("4096 32 32 21504 131072", 8, model_type="apertus"),
    "seed-oss-36b": standard("5120 64 80 27648 155136", 8, model_type="seed_oss", head_dim=128),
}
SMALL = standard("64 4 4 128 1000", 2, model_type="llama")


@pytest.mark.parametrize("name", RELEASED)
def test_released_config_has_the_published_count(name: str) -> None:
    shape = shape_from_config(RELEASED[name])
    assert shape.num_parameters == load_models()[name].num_parameters_exact


@pytest.mark.parametrize("name", RELEASED)
def test_released_config_has_the_catalogue_s_architecture(name: str) -> None:
    shape, shipped = shape_from_config(RELEASED[name]), load_models()[name].shape
    for dimension in (
        *("norm", "norm_layout", "parallel_block", "qk_norm", "positions", "gated_mlp"),
        *("num_kv_heads", "head_dim", "head_bias", "embedding_size", "num_windowed_layers"),
        *("qkv_bias", "attn_out_bias", "mlp_bias", "num_unrotated_layers", "attn_softcap"),
    ):
        assert getattr(shape, dimension) == getattr(shipped, dimension), dimension


def test_every_model_type_of_the_catalogue_is_read() -> None:
    shipped = {model.model_type for model in load_models().values()}
    assert shipped <= set(FAMILIES)
    assert {RELEASED[name]["model_type"] for name in RELEASED} == shipped
    assert not set(FAMILIES) & set(REFUSED)


def test_architecture_stands_in_for_an_absent_model_type() -> None:
    config = {**SMALL, "model_type": None, "architectures": ["Qwen2ForCausalLM"]}
    assert shape_from_config(config).family == "qwen2"


def test_rotary_positions_in_both_forms() -> None:
    old = shape_from_config({**SMALL, "rope_theta": 5e5, "rope_scaling": LLAMA3})
    new = shape_from_config({**SMALL, "rope_parameters": {"rope_theta": 5e5, **LLAMA3}})
    assert old == new
    assert old.rope_theta == 5e5
    assert json.loads(old.rope_scaling) == LLAMA3
    plain = shape_from_config({**SMALL, "rope_parameters": {"rope_type": "default"}})
    assert (plain.rope_theta, plain.rope_scaling) == (10_000.0, "")
    layered = {"full_attention": {"rope_theta": 7.0}, "sliding_attention": {"rope_theta": 3.0}}
    assert shape_from_config({**SMALL, "rope_parameters": layered}).rope_theta == 7.0


def test_windows() -> None:
    def windowed(**changes: object) -> tuple[int | None, int | None]:
        shape = shape_from_config({**SMALL, **changes})
        return shape.sliding_window, shape.num_windowed_layers

    assert windowed() == (None, None)
    assert windowed(model_type="mistral") == (4096, None)
    assert windowed(model_type="mistral", sliding_window=None) == (None, None)
    assert windowed(model_type="qwen2", sliding_window=8) == (None, None)
    used: dict[str, Any] = {"model_type": "qwen2", "sliding_window": 8, "use_sliding_window": True}
    assert windowed(**used, max_window_layers=1) == (8, 3)
    assert windowed(**used) == (None, None)
    kinds = ["sliding_attention", "full_attention"] * 2
    assert windowed(**used, layer_types=kinds) == (8, 2)
    assert windowed(model_type="gemma2", head_dim=16) == (4096, 2)
    assert windowed(model_type="gemma3_text", head_dim=16, sliding_window_pattern=4) == (4096, 3)


def test_numbers_for_the_training_program() -> None:
    gemma = shape_from_config({**SMALL, "model_type": "gemma2", "query_pre_attn_scalar": 144})
    assert (gemma.embedding_scale, gemma.attention_scale) == (8.0, 1 / 12)
    assert (gemma.logit_softcap, gemma.attn_softcap) == (30.0, 50.0)
    uncapped = {**SMALL, "model_type": "gemma2", "final_logit_softcapping": None}
    assert shape_from_config(uncapped).logit_softcap is None
    granite = shape_from_config({**SMALL, "model_type": "granite", "logits_scaling": 8.0})
    assert granite.logit_scale == 0.125
    assert shape_from_config({**SMALL, "rms_norm_eps": 1e-6}).norm_eps == 1e-6
    minicpm = {**SMALL, "model_type": "minicpm", "scale_depth": 1.4, "scale_emb": 12}
    assert shape_from_config({**minicpm, "dim_model_base": 32}).logit_scale == 0.5
    assert shape_from_config(minicpm).residual_scale == 0.7


def test_language_model_of_a_wrapper() -> None:
    # Gemma 3 4B names only what differs from the class; its embedding has 262,208 rows.
    text = {"hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34}
    shape = shape_from_config({"model_type": "gemma3", "vision_config": {}, "text_config": text})
    shipped = load_models()["gemma-3-4b"]
    assert shape.num_parameters == shipped.num_parameters_exact + (262_208 - 262_144) * 2560
    with pytest.raises(InvalidField, match=r"^model\.config\.text_config: is missing"):
        shape_from_config({"model_type": "gemma3"})
    with pytest.raises(InvalidField) as caught:
        shape_from_config({"model_type": "gemma3", "text_config": {"hidden_size": "wide"}})
    assert caught.value.field == "model.config.text_config.hidden_size"


@pytest.mark.parametrize(
    ("changes", "field", "reason"),
    [
        ({"model_type": "mixtral"}, "model_type", "mixtral is a mixture of experts"),
        ({"model_type": "qwen3_moe"}, "model_type", "mixture of experts"),
        ({"model_type": "deepseek_v3"}, "model_type", "mixture of experts"),
        ({"model_type": "gpt_oss"}, "model_type", "mixture of experts"),
        ({"model_type": "bert"}, "model_type", "bert is an encoder"),
        ({"model_type": "t5"}, "model_type", "an encoder and a decoder"),
        ({"model_type": "mamba2"}, "model_type", "state-space"),
        ({"model_type": "jamba"}, "model_type", "mixes attention"),
        ({"model_type": "qwen3_next"}, "model_type", "mixes attention"),
        ({"model_type": "qwen2_5_vl"}, "model_type", "text_config"),
        ({"num_local_experts": 8}, "num_local_experts", "mixture of experts"),
        ({"n_routed_experts": 64}, "n_routed_experts", "mixture of experts"),
        ({"num_experts": "8"}, "num_experts", "mixture of experts"),
        ({"is_encoder_decoder": True}, "is_encoder_decoder", "an encoder and a decoder"),
        ({"kv_lora_rank": 512}, "kv_lora_rank", "latent attention"),
        ({"quantization_config": {"bits": 4}}, "quantization_config", "quantised weights"),
        ({"layer_types": ["linear_attention"] * 4}, "layer_types", "'linear_attention'"),
        ({"model_type": "phi", "qk_layernorm": True}, "qk_layernorm", "not modelled"),
    ],
    ids=str,
)
def test_what_is_not_modelled_is_refused_with_the_reason(
    changes: dict[str, object], field: str, reason: str
) -> None:
    with pytest.raises(UnsupportedModel) as caught:
        shape_from_config({**SMALL, **changes})
    assert caught.value.field == f"model.config.{field}"
    assert reason in caught.value.detail


def test_what_only_says_that_it_is_dense_is_accepted() -> None:
    dense = {"num_local_experts": 0, "num_experts": None, "quantization_config": None}
    assert shape_from_config({**SMALL, **dense}) == shape_from_config(SMALL)


def test_unknown_type_has_close_matches_and_the_list() -> None:
    with pytest.raises(UnknownName) as caught:
        shape_from_config({**SMALL, "model_type": "lama"})
    assert caught.value.field == "model.config.model_type"
    assert "llama" in caught.value.matches
    assert "supported: apertus, aquila" in caught.value.detail


@pytest.mark.parametrize(
    ("changes", "field", "remedy"),
    [
        ({"hidden_size": None}, "hidden_size", "is missing: add it"),
        ({"num_hidden_layers": "32"}, "num_hidden_layers", "not '32'"),
        ({"num_hidden_layers": True}, "num_hidden_layers", "not true"),
        ({"num_hidden_layers": 4.0}, "num_hidden_layers", "not 4.0"),
        ({"num_hidden_layers": -1}, "num_hidden_layers", "from 1 to 1000, not -1"),
        ({"vocab_size": 10**4000}, "vocab_size", "a number of many digits"),
        ({"vocab_size": {"a": [1]}}, "vocab_size", "a value of type dict"),
        ({"intermediate_size": [1, 2]}, "intermediate_size", "a list"),
        ({"num_key_value_heads": 3}, "num_key_value_heads", "3 must divide the 4 heads"),
        ({"num_attention_heads": 3}, "num_attention_heads", "give head_dim"),
        ({"head_dim": 15}, "head_dim", "must be even"),
        ({"rms_norm_eps": float("nan")}, "rms_norm_eps", "not finite"),
        ({"rms_norm_eps": 1e300}, "rms_norm_eps", "from 0 to 1"),
        ({"tie_word_embeddings": "yes"}, "tie_word_embeddings", "true or false"),
        ({"hidden_act": "x" * 300}, "hidden_act", "at most 200 characters"),
        ({"model_type": 7}, "model_type", "must be a text"),
        ({"model_type": None}, "model_type", "is missing: add it, one of apertus"),
        ({"rope_theta": 0}, "rope_theta", "from 1 to"),
        ({"rope_scaling": "linear"}, "rope_scaling", "a JSON object"),
        ({"rope_scaling": {"type": "magic"}}, "rope_scaling.type", "must be one of default"),
        ({"rope_scaling": {"type": "yarn", "factor": {}}}, "rope_scaling.factor", "a number"),
        ({"layer_types": ["full_attention"]}, "layer_types", "a list of 4 names"),
        ({"layer_types": ["full_attention", 1, 2, 3]}, "layer_types.1", "must be a name"),
        (
            {"model_type": "mistral", "num_attention_heads": 4, "num_key_value_heads": 8},
            *("num_key_value_heads", "8 must divide the 4 heads"),
        ),
    ],
    ids=str,
)
def test_broken_values_are_refused_at_their_key(
    changes: dict[str, object], field: str, remedy: str
) -> None:
    with pytest.raises(InvalidField) as caught:
        shape_from_config({**SMALL, **changes})
    assert caught.value.field == f"model.config.{field}"
    assert remedy in caught.value.detail


def test_a_default_that_does_not_fit_is_named() -> None:
    config = {**SMALL, "model_type": "mistral", "num_key_value_heads": None}
    assert shape_from_config(config).num_kv_heads == 4
    del config["num_key_value_heads"]
    with pytest.raises(InvalidField, match="the default of the family's class does not fit"):
        shape_from_config(config)


@pytest.mark.parametrize("config", [None, [], "llama", 3])
def test_what_is_no_object_is_refused(config: object) -> None:
    with pytest.raises(InvalidField, match="must be a JSON object"):
        shape_from_config(config)  # type: ignore[arg-type]  # the point of the test


def test_name_is_the_last_part_of_the_path_if_it_is_one() -> None:
    def named(path: object) -> str:
        return shape_from_config({**SMALL, "_name_or_path": path}).name

    assert named("meta-llama/Llama-3.1-8B") == "Llama-3.1-8B"
    assert named("/home/someone/model/") == "model"
    assert named("a\nb") == named(7) == named("") == named("x" * 100) == "llama"
