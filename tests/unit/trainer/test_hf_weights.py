"""Weights of each family come in from `transformers` and go back, with the same logits."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from trainer.config import Config, config_of
from trainer.errors import CheckpointError, Unsupported
from trainer.model import Model
from trainer.settings import ModelSettings
from trainer.weights import export_weights, load_weights

WIDTHS: dict[str, Any] = {
    "hidden_size": 32,
    "num_layers": 2,
    "num_heads": 4,
    "num_kv_heads": 2,
    "head_dim": 8,
    "ffn_size": 48,
    "vocab_size": 64,
    "max_position": 64,
    "tied_embeddings": False,
}
LAYER_NORM = {"norm": "layernorm", "qkv_bias": True, "attn_out_bias": True, "mlp_bias": True}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
PLAIN = {"rope_type": "default", "rope_theta": 10000.0}
THETA = {"rope_parameters": PLAIN}
LAYER_TYPES = ["sliding_attention", "full_attention"]
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}

# family or variant → (family, our settings beside WIDTHS, their settings beside the widths)
CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "llama": ("llama", {}, {}),
    "llama tied": ("llama", {"tied_embeddings": True}, {"tie_word_embeddings": True}),
    "llama biases": (
        "llama",
        {"qkv_bias": True, "attn_out_bias": True, "mlp_bias": True},
        {"attention_bias": True, "mlp_bias": True},
    ),
    "llama3 scaling": (
        "llama",
        {"rope_scaling": json.dumps(LLAMA3)},
        {"rope_parameters": {**LLAMA3, "rope_theta": 10000.0}},
    ),
    "yarn": (
        "llama",
        {"rope_scaling": json.dumps(YARN)},
        {"rope_parameters": {**YARN, "rope_theta": 10000.0}},
    ),
    "granite": (
        "granite",
        {
            "residual_scale": 0.5,
            "logit_scale": 0.25,
            "embedding_scale": 3.0,
            "attention_scale": 0.2,
        },
        {
            "residual_multiplier": 0.5,
            "logits_scaling": 4.0,
            "embedding_multiplier": 3.0,
            "attention_multiplier": 0.2,
        },
    ),
    "mistral": ("mistral", {}, {"sliding_window": None}),
    "mistral window": ("mistral", {"sliding_window": 16}, {"sliding_window": 16}),
    "smollm3": ("smollm3", {"num_unrotated_layers": 1}, {"no_rope_layers": [1, 0], **THETA}),
    "olmo3": (
        "olmo3",
        {
            "norm_layout": "post",
            "qk_norm": True,
            "qk_norm_kind": "all",
            "sliding_window": 16,
            "num_windowed_layers": 1,
        },
        {
            "sliding_window": 16,
            "layer_types": LAYER_TYPES,
            "rope_parameters": dict.fromkeys(LAYER_TYPES, PLAIN),
        },
    ),
    "olmo3 scaling": (
        "olmo3",
        {
            "norm_layout": "post",
            "qk_norm": True,
            "qk_norm_kind": "all",
            "sliding_window": 16,
            "num_windowed_layers": 1,
            "rope_scaling": json.dumps(YARN),
        },
        {
            "sliding_window": 16,
            "layer_types": LAYER_TYPES,
            "rope_parameters": {
                "sliding_attention": PLAIN,
                "full_attention": {**YARN, "rope_theta": 10000.0},
            },
        },
    ),
    "bloom": (
        "bloom",
        {
            **LAYER_NORM,
            "gated_mlp": False,
            "activation": "gelu_tanh",
            "positions": "alibi",
            "embedding_norm": True,
            "tied_embeddings": True,
            "num_kv_heads": 4,
            "ffn_size": 128,
        },
        {"n_layer": 2, "n_head": 4, "layer_norm_epsilon": 1e-5, "tie_word_embeddings": True},
    ),
    "qwen2": ("qwen2", {"qkv_bias": True}, {}),
    "qwen3": ("qwen3", {"qk_norm": True}, {}),
    "olmo2": ("olmo2", {"norm_layout": "post", "qk_norm": True, "qk_norm_kind": "all"}, {}),
    "phi3": ("phi3", {}, {"pad_token_id": 0}),
    "gemma": (
        "gemma",
        {
            "tied_embeddings": True,
            "activation": "gelu_pytorch_tanh",
            "embedding_scale": 32**0.5,
        },
        {"tie_word_embeddings": True, "hidden_act": "gelu_pytorch_tanh"},
    ),
    "gpt2": (
        "gpt2",
        {
            **LAYER_NORM,
            "positions": "learned",
            "gated_mlp": False,
            "activation": "gelu_new",
            "tied_embeddings": True,
            "num_kv_heads": 4,
        },
        {},
    ),
    "gpt_neox": (
        "gpt_neox",
        {
            **LAYER_NORM,
            "gated_mlp": False,
            "activation": "gelu",
            "parallel_block": "separate",
            "rotary_fraction": 0.25,
            "num_kv_heads": 4,
        },
        {"rotary_pct": 0.25, "hidden_act": "gelu"},
    ),
    "starcoder2": (
        "starcoder2",
        {
            **LAYER_NORM,
            "gated_mlp": False,
            "activation": "gelu_pytorch_tanh",
            "tied_embeddings": True,
        },
        {"use_bias": True, "tie_word_embeddings": True, "sliding_window": None},
    ),
}
GPT2_WIDTHS = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_inner": 48, "n_positions": 64}


def their_model(family: str, model: ModelSettings, extra: dict[str, Any]) -> Any:
    """A small random model of a family, with every weight away from its usual start."""
    if family == "gpt2":
        widths: dict[str, Any] = {**GPT2_WIDTHS, "vocab_size": 64, "layer_norm_epsilon": 1e-5}
    else:
        widths = {
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": model.num_kv_heads,
            "head_dim": 8,
            "intermediate_size": 48,
            "vocab_size": 64,
            "max_position_embeddings": 64,
            "tie_word_embeddings": False,
            "rms_norm_eps": 1e-5,
            "layer_norm_eps": 1e-5,
            "norm_epsilon": 1e-5,
            "pad_token_id": None,
            "eos_token_id": 1,
            "bos_token_id": 1,
        }
        if family in ("gpt_neox", "starcoder2"):
            widths.pop("head_dim")
    config = transformers.AutoConfig.for_model(family, **{**widths, **extra})
    torch.manual_seed(0)
    built = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return built.eval().float()


def our_config(case: str, **run: str) -> tuple[Config, str, dict[str, Any]]:
    family, ours, theirs = CASES[case]
    model = ModelSettings(**{**WIDTHS, **ours})
    config = config_of({"family": family, **run})
    return replace(config, model=model), family, theirs


def our_model(config: Config) -> Model:
    model = Model(config.model)
    model.make_tables(torch.device("cpu"))
    return model.eval()


@pytest.fixture
def tokens() -> torch.Tensor:
    return torch.randint(64, (2, 48), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("case", CASES)
def test_logits_are_theirs_both_ways(case: str, tmp_path: Path, tokens: torch.Tensor) -> None:
    config, family, extra = our_config(case)
    theirs = their_model(family, config.model, extra)
    theirs.save_pretrained(tmp_path / "in")
    ours = our_model(config)
    load_weights(ours, config, tmp_path / "in")
    with torch.no_grad():
        wanted, found = theirs(tokens).logits, ours(tokens)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)

    described = replace(config, run=replace(config.run, init_from=str(tmp_path / "in")))
    export_weights(ours, described, tmp_path / "out", writes=True)
    back = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path / "out", attn_implementation="eager"
    )
    with torch.no_grad():
        torch.testing.assert_close(back.eval()(tokens).logits, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "case", ["llama tied", "llama3 scaling", "qwen2", "qwen3", "olmo2", "gpt2", "gpt_neox", "phi3"]
)
def test_an_export_from_scratch_describes_itself(
    case: str, tmp_path: Path, tokens: torch.Tensor
) -> None:
    config, family, extra = our_config(case)
    source = their_model(family, config.model, extra)
    source.save_pretrained(tmp_path / "in")
    ours = our_model(config)
    load_weights(ours, config, tmp_path / "in")
    export_weights(ours, config, tmp_path / "out", writes=True)
    back = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path / "out", attn_implementation="eager"
    )
    with torch.no_grad():
        torch.testing.assert_close(back.eval()(tokens).logits, ours(tokens), rtol=1e-4, atol=1e-4)


def test_a_missing_tensor_is_named(tmp_path: Path) -> None:
    config, family, extra = our_config("llama")
    their_model(family, config.model, extra).save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    tensors = load_file(path)
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, path, metadata={"format": "pt"})
    with pytest.raises(CheckpointError, match=r"no tensor model\.layers\.1\.mlp\.up_proj\.weight"):
        load_weights(our_model(config), config, tmp_path)


def test_another_shape_is_named(tmp_path: Path) -> None:
    config, family, extra = our_config("llama")
    their_model(family, config.model, extra).save_pretrained(tmp_path)
    other = replace(config, model=replace(config.model, ffn_size=64))
    with pytest.raises(CheckpointError, match=r"mlp\.gate_proj\.weight is \(48, 32\)"):
        load_weights(our_model(other), other, tmp_path)


def test_an_empty_folder_and_an_unknown_family_are_refused(tmp_path: Path) -> None:
    config, _, _ = our_config("llama")
    with pytest.raises(CheckpointError, match="no safetensors"):
        load_weights(our_model(config), config, tmp_path)
    strange = replace(config, run=replace(config.run, family="t5"))
    with pytest.raises(Unsupported, match="'t5' is none of"):
        export_weights(our_model(config), strange, tmp_path, writes=True)


def test_a_family_without_a_name_for_a_weight_is_refused(tmp_path: Path) -> None:
    config, _, _ = our_config("qwen3")
    as_phi = replace(config, run=replace(config.run, family="phi3"))
    with pytest.raises(Unsupported, match=r"no name for blocks\.0\.attn\.k_norm\.weight"):
        export_weights(our_model(config), as_phi, tmp_path, writes=True)
