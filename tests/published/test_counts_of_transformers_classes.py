"""Counts from a config.json equal those of the model that transformers builds from it."""

import math
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import transformers

from advisor.model_config import FAMILIES, shape_from_config

SIZES = {
    "hidden_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "intermediate_size": 160,
    "vocab_size": 500,
    "max_position_embeddings": 256,
    "pad_token_id": None,
    "bos_token_id": None,
    "eos_token_id": None,
}
GPT = {"n_embd": 96, "n_layer": 3, "n_head": 8, "vocab_size": 500, "n_positions": 256}
NO_CLASS = ("exaone", "internlm", "internlm2", "baichuan", "aquila", "minicpm", "plamo")
# What each family's config can say beside the sizes.
VARIANTS: dict[str, list[dict[str, Any]]] = {
    "llama": [
        {"attention_bias": True},
        {"mlp_bias": True, "tie_word_embeddings": True},
        {"head_dim": 20},
    ],
    "mistral": [{"head_dim": 20}, {"tie_word_embeddings": True}],
    "qwen2": [{"tie_word_embeddings": True}],
    "qwen3": [{"attention_bias": True}, {"head_dim": 24}],
    "gemma": [{"attention_bias": True}, {"head_dim": 24}, {"tie_word_embeddings": False}],
    "gemma2": [{"attention_bias": True}],
    "gemma3_text": [{"attention_bias": True}, {"head_dim": 16}],
    "phi": [{"tie_word_embeddings": True}],
    "olmo": [{"attention_bias": True}],
    "olmo2": [{"attention_bias": True}],
    "olmo3": [{"tie_word_embeddings": True}],
    "gpt_neox": [{"use_parallel_residual": False}, {"attention_bias": False}],
    "falcon": [
        {"multi_query": False, "parallel_attn": False, "alibi": True, "bias": True},
        {"new_decoder_architecture": True, "num_kv_heads": 4},
        {"new_decoder_architecture": True, "num_kv_heads": 2, "num_ln_in_parallel_attn": 1},
        {"ffn_hidden_size": 100, "tie_word_embeddings": False},
    ],
    "stablelm": [
        {"use_qkv_bias": True},
        {"use_parallel_residual": True, "qk_layernorm": True},
    ],
    "cohere": [{"use_qk_norm": True}, {"attention_bias": True, "tie_word_embeddings": False}],
    "cohere2": [{"attention_bias": True}],
    "starcoder2": [{"use_bias": False}, {"tie_word_embeddings": False}],
    "granite": [{"attention_bias": True, "mlp_bias": True}],
    "smollm3": [{"attention_bias": True, "mlp_bias": True}],
    "glm": [{"attention_bias": False}, {"head_dim": 16}],
    "glm4": [{"attention_bias": True}],
    "nemotron": [{"attention_bias": True, "mlp_bias": True}, {"head_dim": 20}],
    "arcee": [{"attention_bias": True, "mlp_bias": True}],
    "apertus": [{"attention_bias": True}],
    "seed_oss": [{"attention_bias": False, "attention_out_bias": True, "mlp_bias": True}],
    "ernie4_5": [{"use_bias": True}, {"tie_word_embeddings": False}],
    "hunyuan_v1_dense": [{"attention_bias": True}],
    "gpt2": [{"n_inner": 100}, {"tie_word_embeddings": False}],
    "gpt_bigcode": [{"multi_query": False}, {"n_inner": 100}],
    "gptj": [{"n_inner": 100, "rotary_dim": 4}],
    "opt": [
        {"word_embed_proj_dim": 32, "do_layer_norm_before": False},
        {"_remove_final_layer_norm": True},
        {"enable_bias": False, "layer_norm_elementwise_affine": False},
    ],
}
# Keys of the sizes where they are not the usual ones.
OWN_SIZES: dict[str, dict[str, Any]] = {
    "gpt2": GPT,
    "gpt_bigcode": GPT,
    "gptj": {**GPT, "rotary_dim": 12},
    "gpt_neo": {
        "hidden_size": 96,
        "num_layers": 4,
        "num_heads": 8,
        "attention_types": [[["global", "local"], 2]],
        "vocab_size": 500,
        "max_position_embeddings": 256,
    },
    # The classes of these two need it.
    "hunyuan_v1_dense": {**SIZES, "head_dim": 12},
    "ministral": {**SIZES, "head_dim": 12},
    "opt": {
        "hidden_size": 96,
        "num_hidden_layers": 3,
        "num_attention_heads": 8,
        "ffn_dim": 160,
        "word_embed_proj_dim": 96,
        "vocab_size": 500,
        "max_position_embeddings": 256,
    },
    "bloom": {"hidden_size": 96, "n_layer": 3, "n_head": 8, "vocab_size": 500},
    "mpt": {"d_model": 96, "n_layers": 3, "n_heads": 8, "vocab_size": 500},
}


def configs() -> Iterator[tuple[str, dict[str, Any]]]:
    for model_type in sorted(set(FAMILIES) - set(NO_CLASS)):
        for variant in ({}, *VARIANTS.get(model_type, ())):
            yield model_type, {**OWN_SIZES.get(model_type, SIZES), **variant}


def counted(model_type: str, config: dict[str, Any]) -> int:
    """Parameters of the class's model, on no device; buffers are not parameters."""
    with warnings.catch_warnings(), torch.device("meta"):
        warnings.simplefilter("ignore")
        built = transformers.AutoConfig.for_model(model_type, **config)
        model = transformers.AutoModelForCausalLM.from_config(built)
    return sum(math.prod(item.shape) for item in model.parameters())


@pytest.mark.parametrize(("model_type", "config"), list(configs()), ids=str)
def test_count_of_the_class(model_type: str, config: dict[str, Any]) -> None:
    shape = shape_from_config({"model_type": model_type, **config})
    assert shape.num_parameters == counted(model_type, config)


@pytest.mark.parametrize("model_type", ["llama", "mistral", "qwen3", "gemma2", "starcoder2", "glm"])
def test_defaults_of_the_class(model_type: str) -> None:
    absent = ("num_key_value_heads", "max_position_embeddings")
    config = {key: value for key, value in SIZES.items() if key not in absent}
    config = {**config, "num_attention_heads": 32, "hidden_size": 256}
    shape = shape_from_config({"model_type": model_type, **config})
    assert shape.num_parameters == counted(model_type, config)
    built = transformers.AutoConfig.for_model(model_type, **config)
    assert shape.max_position == built.max_position_embeddings
