"""How Hugging Face families name and lay out the weights, and how that maps to trainer.model.

A Rule says which of our tensors one tensor of theirs holds, and how to take it apart and put it
together. "{i}" in a name is the block's number.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor

from trainer.errors import Unsupported
from trainer.layers import rotated_layers
from trainer.settings import ModelSettings

Split: TypeAlias = Callable[[Tensor, ModelSettings], Sequence[Tensor]]
Join: TypeAlias = Callable[[Sequence[Tensor], ModelSettings], Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """theirs: one name; ours: the names that it holds, in the order of split and join."""

    theirs: str
    ours: tuple[str, ...]
    split: Split
    join: Join


def _same(theirs: str, ours: str) -> Rule:
    return Rule(theirs=theirs, ours=(ours,), split=lambda t, _: (t,), join=lambda p, _: p[0])


def _turned(theirs: str, ours: str) -> Rule:
    """GPT-2 stores its matrices input first."""
    return Rule(
        theirs=theirs, ours=(ours,), split=lambda t, _: (t.t(),), join=lambda p, _: p[0].t()
    )


def _off_by_one(theirs: str, ours: str) -> Rule:
    """Gemma stores its norms' weights less one."""
    return Rule(
        theirs=theirs, ours=(ours,), split=lambda t, _: (t + 1,), join=lambda p, _: p[0] - 1
    )


def _rows(theirs: str, ours: tuple[str, ...], sizes: Callable[[ModelSettings], list[int]]) -> Rule:
    """Several of ours one below the other."""
    return Rule(
        theirs=theirs,
        ours=ours,
        split=lambda t, model: t.split(sizes(model), dim=0),
        join=lambda parts, _: torch.cat(list(parts), dim=0),
    )


def _turned_rows(theirs: str, ours: tuple[str, ...]) -> Rule:
    return Rule(
        theirs=theirs,
        ours=ours,
        split=lambda t, model: t.t().split(_qkv_sizes(model), dim=0),
        join=lambda parts, _: torch.cat(list(parts), dim=0).t(),
    )


def _by_head(theirs: str, ours: tuple[str, ...]) -> Rule:
    """GPT-NeoX stores q, k, v head by head."""

    def split(tensor: Tensor, model: ModelSettings) -> Sequence[Tensor]:
        rest = tensor.shape[1:]
        parts = tensor.view(model.num_heads, 3, model.head_dim, *rest).unbind(dim=1)
        return [part.reshape(-1, *rest) for part in parts]

    def join(parts: Sequence[Tensor], model: ModelSettings) -> Tensor:
        rest = parts[0].shape[1:]
        heads = [part.view(model.num_heads, model.head_dim, *rest) for part in parts]
        return torch.stack(heads, dim=1).reshape(-1, *rest)

    return Rule(theirs=theirs, ours=ours, split=split, join=join)


def _qkv_sizes(model: ModelSettings) -> list[int]:
    kv_size = model.num_kv_heads * model.head_dim
    return [model.num_heads * model.head_dim, kv_size, kv_size]


def _gate_up_sizes(model: ModelSettings) -> list[int]:
    return [model.ffn_size, model.ffn_size]


_OURS, _QKV = "blocks.{i}.", ("q", "k", "v")


def _both(rule: Callable[[str, str], Rule], theirs: str, ours: str) -> list[Rule]:
    """The same rule for a weight and its bias."""
    return [rule(f"{theirs}.{kind}", f"{ours}.{kind}") for kind in ("weight", "bias")]


def _llama_attention(layer: str) -> list[Rule]:
    rules = []
    for name in ("q", "k", "v", "o"):
        rules += _both(_same, f"{layer}self_attn.{name}_proj", f"{_OURS}attn.{name}")
    for name in ("q_norm", "k_norm"):
        rules += _both(_same, f"{layer}self_attn.{name}", f"{_OURS}attn.{name}")
    return rules


def _gated_mlp(layer: str) -> list[Rule]:
    rules = []
    for name in ("gate", "up", "down"):
        rules += _both(_same, f"{layer}mlp.{name}_proj", f"{_OURS}mlp.{name}")
    return rules


def _edges(norm: Callable[[str, str], Rule] = _same) -> list[Rule]:
    return [
        _same("model.embed_tokens.weight", "embed.weight"),
        *_both(norm, "model.norm", "head.norm"),
        _same("lm_head.weight", "head.weight"),
        _same("lm_head.bias", "head.bias"),
    ]


def _llama() -> list[Rule]:
    layer = "model.layers.{i}."
    return [
        *_edges(),
        *_llama_attention(layer),
        *_gated_mlp(layer),
        *_norms_before(layer),
    ]


def _norms_before(layer: str) -> list[Rule]:
    return [
        *_both(_same, f"{layer}input_layernorm", f"{_OURS}attn_norm"),
        *_both(_same, f"{layer}post_attention_layernorm", f"{_OURS}mlp_norm"),
    ]


def _starcoder2() -> list[Rule]:
    layer = "model.layers.{i}."
    return [
        *_edges(),
        *_llama_attention(layer),
        *_norms_before(layer),
        *_both(_same, f"{layer}mlp.c_fc", f"{_OURS}mlp.up"),
        *_both(_same, f"{layer}mlp.c_proj", f"{_OURS}mlp.down"),
    ]


def _olmo2() -> list[Rule]:
    layer = "model.layers.{i}."
    return [
        *_edges(),
        *_llama_attention(layer),
        *_gated_mlp(layer),
        *_both(_same, f"{layer}post_attention_layernorm", f"{_OURS}post_attn_norm"),
        *_both(_same, f"{layer}post_feedforward_layernorm", f"{_OURS}post_mlp_norm"),
    ]


def _gemma() -> list[Rule]:
    layer = "model.layers.{i}."
    return [
        *_edges(_off_by_one),
        *_llama_attention(layer),
        *_gated_mlp(layer),
        _off_by_one(f"{layer}input_layernorm.weight", f"{_OURS}attn_norm.weight"),
        _off_by_one(f"{layer}post_attention_layernorm.weight", f"{_OURS}mlp_norm.weight"),
    ]


def _phi3() -> list[Rule]:
    layer = "model.layers.{i}."
    qkv = tuple(f"{_OURS}attn.{name}.weight" for name in _QKV)
    gate_up = (f"{_OURS}mlp.gate.weight", f"{_OURS}mlp.up.weight")
    return [
        *_edges(),
        _rows(f"{layer}self_attn.qkv_proj.weight", qkv, _qkv_sizes),
        _same(f"{layer}self_attn.o_proj.weight", f"{_OURS}attn.o.weight"),
        _rows(f"{layer}mlp.gate_up_proj.weight", gate_up, _gate_up_sizes),
        _same(f"{layer}mlp.down_proj.weight", f"{_OURS}mlp.down.weight"),
        _same(f"{layer}input_layernorm.weight", f"{_OURS}attn_norm.weight"),
        _same(f"{layer}post_attention_layernorm.weight", f"{_OURS}mlp_norm.weight"),
    ]


def _gpt2() -> list[Rule]:
    layer = "transformer.h.{i}."
    rules = [
        _same("transformer.wte.weight", "embed.weight"),
        _same("transformer.wpe.weight", "pos.weight"),
        *_both(_same, "transformer.ln_f", "head.norm"),
        _same("lm_head.weight", "head.weight"),
        *_both(_same, f"{layer}ln_1", f"{_OURS}attn_norm"),
        *_both(_same, f"{layer}ln_2", f"{_OURS}mlp_norm"),
        _turned_rows(
            f"{layer}attn.c_attn.weight", tuple(f"{_OURS}attn.{name}.weight" for name in _QKV)
        ),
        _rows(
            f"{layer}attn.c_attn.bias",
            tuple(f"{_OURS}attn.{name}.bias" for name in _QKV),
            _qkv_sizes,
        ),
    ]
    for theirs, ours in (("attn.c_proj", "attn.o"), ("mlp.c_fc", "mlp.up")):
        rules.append(_turned(f"{layer}{theirs}.weight", f"{_OURS}{ours}.weight"))
        rules.append(_same(f"{layer}{theirs}.bias", f"{_OURS}{ours}.bias"))
    rules.append(_turned(f"{layer}mlp.c_proj.weight", f"{_OURS}mlp.down.weight"))
    rules.append(_same(f"{layer}mlp.c_proj.bias", f"{_OURS}mlp.down.bias"))
    return rules


def _fused_heads(layer: str, attention: str) -> list[Rule]:
    """A block of GPT-NeoX, and of BLOOM with another name for its attention."""
    rules = [
        *_both(_same, f"{layer}input_layernorm", f"{_OURS}attn_norm"),
        *_both(_same, f"{layer}post_attention_layernorm", f"{_OURS}mlp_norm"),
        *_both(_same, f"{layer}{attention}.dense", f"{_OURS}attn.o"),
        *_both(_same, f"{layer}mlp.dense_h_to_4h", f"{_OURS}mlp.up"),
        *_both(_same, f"{layer}mlp.dense_4h_to_h", f"{_OURS}mlp.down"),
    ]
    for kind in ("weight", "bias"):
        ours = tuple(f"{_OURS}attn.{name}.{kind}" for name in _QKV)
        rules.append(_by_head(f"{layer}{attention}.query_key_value.{kind}", ours))
    return rules


def _gpt_neox() -> list[Rule]:
    return [
        _same("gpt_neox.embed_in.weight", "embed.weight"),
        *_both(_same, "gpt_neox.final_layer_norm", "head.norm"),
        _same("embed_out.weight", "head.weight"),
        *_fused_heads("gpt_neox.layers.{i}.", "attention"),
    ]


def _bloom() -> list[Rule]:
    return [
        _same("transformer.word_embeddings.weight", "embed.weight"),
        *_both(_same, "transformer.word_embeddings_layernorm", "embed_norm"),
        *_both(_same, "transformer.ln_f", "head.norm"),
        _same("lm_head.weight", "head.weight"),
        *_fused_heads("transformer.h.{i}.", "self_attention"),
    ]


_FAMILIES: Mapping[str, Callable[[], list[Rule]]] = {
    "llama": _llama,
    "granite": _llama,
    "mistral": _llama,
    "qwen2": _llama,
    "qwen3": _llama,
    "smollm3": _llama,
    "starcoder2": _starcoder2,
    "olmo2": _olmo2,
    "olmo3": _olmo2,
    "bloom": _bloom,
    "gemma": _gemma,
    "phi3": _phi3,
    "gpt2": _gpt2,
    "gpt_neox": _gpt_neox,
}
FAMILIES: tuple[str, ...] = tuple(_FAMILIES)


def rules_of(family: str, model: ModelSettings, names: frozenset[str]) -> list[Rule]:
    """Rules for the tensors `names` that this model has, with the blocks' numbers filled in.

    Raises Unsupported for an unknown family and for a tensor that the family has no name for.
    """
    if family not in _FAMILIES:
        raise Unsupported(f"family {family!r} is none of {', '.join(FAMILIES)}")
    found: list[Rule] = []
    for rule in _FAMILIES[family]():
        numbers = range(model.num_layers) if "{i}" in rule.theirs else (0,)
        for number in numbers:
            ours = tuple(name.format(i=number) for name in rule.ours)
            if names.issuperset(ours):
                found.append(
                    Rule(
                        theirs=rule.theirs.format(i=number),
                        ours=ours,
                        split=rule.split,
                        join=rule.join,
                    )
                )
    nameless = names - {name for rule in found for name in rule.ours}
    if nameless:
        raise Unsupported(f"family {family} has no name for {', '.join(sorted(nameless)[:3])}")
    return found


def config_json(family: str, model: ModelSettings) -> dict[str, Any]:
    """The config.json that `transformers` needs to load an export.

    Raises Unsupported for a family whose configuration this program does not write.
    """
    if family == "gpt2":
        return _gpt2_config(model)
    if family == "gpt_neox":
        return _gpt_neox_config(model)
    architectures = {
        "llama": "LlamaForCausalLM",
        "mistral": "MistralForCausalLM",
        "qwen2": "Qwen2ForCausalLM",
        "qwen3": "Qwen3ForCausalLM",
        "smollm3": "SmolLM3ForCausalLM",
        "olmo2": "Olmo2ForCausalLM",
        "phi3": "Phi3ForCausalLM",
        "gemma": "GemmaForCausalLM",
    }
    if family not in architectures:
        raise Unsupported(f"the config.json of family {family} is not written; give init_from")
    described: dict[str, Any] = {"model_type": family, "architectures": [architectures[family]]}
    if family == "smollm3":
        described["no_rope_layers"] = [int(rotates) for rotates in rotated_layers(model)]
    return {**_common(model), **described}


def _common(model: ModelSettings) -> dict[str, Any]:
    return {
        "hidden_size": model.hidden_size,
        "num_hidden_layers": model.num_layers,
        "num_attention_heads": model.num_heads,
        "num_key_value_heads": model.num_kv_heads,
        "head_dim": model.head_dim,
        "intermediate_size": model.ffn_size,
        "vocab_size": model.vocab_size,
        "max_position_embeddings": model.max_position,
        "tie_word_embeddings": model.tied_embeddings,
        "rms_norm_eps": model.norm_eps,
        "hidden_act": model.activation,
        "rope_theta": model.rope_theta,
        "attention_bias": model.qkv_bias,
        "mlp_bias": model.mlp_bias,
        "sliding_window": model.sliding_window,
        "pad_token_id": None,
    }


def _gpt2_config(model: ModelSettings) -> dict[str, Any]:
    return {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "n_embd": model.hidden_size,
        "n_layer": model.num_layers,
        "n_head": model.num_heads,
        "n_inner": model.ffn_size,
        "n_positions": model.max_position,
        "vocab_size": model.vocab_size,
        "activation_function": model.activation,
        "layer_norm_epsilon": model.norm_eps,
        "tie_word_embeddings": model.tied_embeddings,
    }


def _gpt_neox_config(model: ModelSettings) -> dict[str, Any]:
    return {
        **_common(model),
        "model_type": "gpt_neox",
        "architectures": ["GPTNeoXForCausalLM"],
        "layer_norm_eps": model.norm_eps,
        "rotary_pct": model.rotary_fraction,
        "rotary_emb_base": model.rope_theta,
        "attention_bias": model.qkv_bias,
        "use_parallel_residual": model.parallel_block == "separate",
    }
