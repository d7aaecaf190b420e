"""What single families read from their config.json beside the dimensions that all have.

Source: the configuration and modelling classes of transformers 5.24; for minicpm, plamo and
baichuan the code beside their checkpoints. Each rule takes the config and the fields of the shape
as far as they are read, and gives the fields that it changes.
"""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from advisor.config_reader import ConfigReader
from advisor.errors import UnsupportedModel
from advisor.model import LIMITS

Fields = Mapping[str, Any]
Rule = Callable[[ConfigReader, Fields], dict[str, Any]]

MAX_SCALE = 1e6
_LOCAL = "local"


def _falcon(config: ConfigReader, fields: Fields) -> dict[str, Any]:
    """Three generations: falcon-rw (sequential, ALiBi), 7B (one norm) and 40B (two norms)."""
    heads = fields["num_heads"]
    new = config.flag("new_decoder_architecture", default=False)
    norms = config.integer(("num_ln_in_parallel_attn",), default=2 if new else 1, most=2)
    parallel = config.flag("parallel_attn", default=True)
    kv_heads = heads
    if new:
        keys = ("num_kv_heads", "n_head_kv")
        kv_heads = config.integer(keys, default=heads, most=LIMITS["num_kv_heads"])
    elif config.flag("multi_query", default=True):
        kv_heads = 1
    layout = "separate" if new and norms == 2 else "shared" if parallel else "none"
    positions = "alibi" if config.flag("alibi", default=False) else "rope"
    return {"num_kv_heads": kv_heads, "parallel_block": layout, "positions": positions}


def _mpt(config: ConfigReader, fields: Fields) -> dict[str, Any]:
    """expansion_ratio as llm-foundry's own code has it; transformers always builds 4."""
    attention = config.section("attn_config") or ConfigReader(
        values={}, field=config.where("attn_config")
    )
    kind = attention.text("attn_type", default="multihead_attention")
    usual = (
        (kind == "multihead_attention", attention, "attn_type"),
        (attention.flag("alibi", default=True), attention, "alibi"),
        (not attention.flag("qk_ln", default=False), attention, "qk_ln"),
        (config.flag("no_bias", default=True), config, "no_bias"),
    )
    for is_usual, place, key in usual:
        if not is_usual:
            raise UnsupportedModel(
                place.where(key),
                "only MPT with ALiBi, multi-head attention and no biases is modelled, as released",
            )
    ratio = config.number("expansion_ratio", default=4.0, least=1 / 64, most=64)
    return {"ffn_size": int(ratio * fields["hidden_size"])}


def _gpt_bigcode(config: ConfigReader, fields: Fields) -> dict[str, Any]:
    multi_query = config.flag("multi_query", default=True)
    return {"num_kv_heads": 1 if multi_query else fields["num_heads"]}


def _gpt_neo(config: ConfigReader, fields: Fields) -> dict[str, Any]:
    """Every second layer is local, where attention_layers does not say."""
    layers = config.texts("attention_layers", length=fields["num_layers"])
    local = fields["num_layers"] // 2 if layers is None else layers.count(_LOCAL)
    window = config.integer(("window_size",), default=256, most=LIMITS["max_position"])
    windowed = {"sliding_window": window, "num_windowed_layers": local}
    return windowed if local else {}


def _opt(config: ConfigReader, fields: Fields) -> dict[str, Any]:
    hidden = fields["hidden_size"]
    width = config.integer(("word_embed_proj_dim",), default=hidden, most=LIMITS["hidden_size"])
    before = config.flag("do_layer_norm_before", default=True)
    removed = config.flag("_remove_final_layer_norm", default=False)
    affine = config.flag("layer_norm_elementwise_affine", default=True)
    return {
        "embedding_size": None if width == hidden else width,
        "norm_layout": "pre" if before else "post",
        "final_norm": before and not removed,
        "norm": "layernorm" if affine else "nonparametric",
    }


def _gpt_neox(config: ConfigReader, _: Fields) -> dict[str, Any]:
    parallel = config.flag("use_parallel_residual", default=True)
    return {"parallel_block": "separate" if parallel else "none"}


def _stablelm(config: ConfigReader, _: Fields) -> dict[str, Any]:
    parallel = config.flag("use_parallel_residual", default=False)
    return {"parallel_block": "shared" if parallel else "none"}


def _phi(config: ConfigReader, _: Fields) -> dict[str, Any]:
    if config.flag("qk_layernorm", default=False):
        raise UnsupportedModel(
            config.where("qk_layernorm"), "Phi with norms on queries and keys is not modelled"
        )
    return {}


def _gptj(config: ConfigReader, fields: Fields) -> dict[str, Any]:
    head_dim = fields["head_dim"]
    rotary = config.integer(("rotary_dim",), default=min(64, head_dim), most=head_dim)
    return {"rotary_fraction": rotary / head_dim}


def _gemma(_: ConfigReader, fields: Fields) -> dict[str, Any]:
    return {"embedding_scale": math.sqrt(fields["hidden_size"])}


def _gemma2(config: ConfigReader, fields: Fields) -> dict[str, Any]:
    scalar = config.number("query_pre_attn_scalar", default=256.0, least=1e-6, most=MAX_SCALE)
    return {**_gemma(config, fields), "attention_scale": scalar**-0.5, **_softcaps(config, 30, 50)}


def _gemma3(config: ConfigReader, fields: Fields) -> dict[str, Any]:
    return {**_gemma2(config, fields), **_softcaps(config, None, None)}


def _softcaps(
    config: ConfigReader, final: float | None, attention: float | None
) -> dict[str, float | None]:
    """Caps on logits and scores; null takes one away, absence leaves the family's own."""
    caps: dict[str, float | None] = {}
    for name, key, usual in (
        ("logit_softcap", "final_logit_softcapping", final),
        ("attn_softcap", "attn_logit_softcapping", attention),
    ):
        given = config.optional_number(key, least=1e-6, most=MAX_SCALE)
        caps[name] = given if key in config.values else usual
    return caps


def _granite(config: ConfigReader, _: Fields) -> dict[str, Any]:
    def scale(key: str) -> float:
        return config.number(key, default=1.0, least=1 / MAX_SCALE, most=MAX_SCALE)

    return {
        "embedding_scale": scale("embedding_multiplier"),
        "attention_scale": scale("attention_multiplier"),
        "residual_scale": scale("residual_multiplier"),
        "logit_scale": 1.0 / scale("logits_scaling"),
    }


def _cohere(config: ConfigReader, _: Fields) -> dict[str, Any]:
    scale = config.number("logit_scale", default=0.0625, least=1 / MAX_SCALE, most=MAX_SCALE)
    return {"logit_scale": scale}


def _cohere2(config: ConfigReader, fields: Fields) -> dict[str, Any]:
    return {**_cohere(config, fields), **_unrotated_where_full(config, fields)}


def _unrotated_where_full(_: ConfigReader, fields: Fields) -> dict[str, Any]:
    """Layers with full attention have no rotary positions, where others have windows."""
    if fields["sliding_window"] is None or fields["num_windowed_layers"] is None:
        return {}
    return {"num_unrotated_layers": fields["num_layers"] - fields["num_windowed_layers"]}


def _smollm3(config: ConfigReader, fields: Fields) -> dict[str, Any]:
    """no_rope_layers has 1 for a layer that rotates; else each n-th layer does not."""
    layers = fields["num_layers"]
    every = config.integer(("no_rope_layer_interval",), default=4, most=LIMITS["num_layers"])
    rotated = config.value("no_rope_layers")
    if isinstance(rotated, list | tuple) and len(rotated) == layers:
        return {"num_unrotated_layers": sum(1 for item in rotated if item in (0, False))}
    return {"num_unrotated_layers": layers // every}


def _minicpm(config: ConfigReader, fields: Fields) -> dict[str, Any]:
    depth = config.optional_number("scale_depth", least=1 / MAX_SCALE, most=MAX_SCALE)
    base = config.number("dim_model_base", default=fields["hidden_size"], least=1, most=MAX_SCALE)
    return {
        "embedding_scale": config.number(
            "scale_emb", default=1.0, least=1 / MAX_SCALE, most=MAX_SCALE
        ),
        "residual_scale": 1.0 if depth is None else depth / math.sqrt(fields["num_layers"]),
        "logit_scale": base / fields["hidden_size"],
    }


def _baichuan(config: ConfigReader, _: Fields) -> dict[str, Any]:
    """The 13B models have ALiBi, and model_max_length instead of max_position_embeddings."""
    rotates = config.key_of(("max_position_embeddings", "model_max_length"))
    return {"positions": "alibi" if rotates == "model_max_length" else "rope"}


def _plamo(config: ConfigReader, fields: Fields) -> dict[str, Any]:
    shared = config.integer(("n_shared_head",), default=8, most=LIMITS["num_heads"])
    return {"num_kv_heads": max(fields["num_heads"] // shared, 1)}


RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "baichuan": _baichuan,
        "cohere": _cohere,
        "cohere2": _cohere2,
        "exaone4": _unrotated_where_full,
        "falcon": _falcon,
        "gemma": _gemma,
        "gemma2": _gemma2,
        "gemma3_text": _gemma3,
        "gpt_bigcode": _gpt_bigcode,
        "gpt_neo": _gpt_neo,
        "gpt_neox": _gpt_neox,
        "gptj": _gptj,
        "granite": _granite,
        "minicpm": _minicpm,
        "mpt": _mpt,
        "opt": _opt,
        "phi": _phi,
        "plamo": _plamo,
        "smollm3": _smollm3,
        "stablelm": _stablelm,
    }
)
