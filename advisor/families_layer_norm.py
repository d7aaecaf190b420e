"""Families with layer norms: GPT-2 and what follows it.

Source of keys, defaults and fixed properties: the configuration and modelling classes of
transformers 5.24 (https://github.com/huggingface/transformers, retrieved 2026-12-01).
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from advisor.family import ALL_BIASES, ATTENTION_BIAS, Family, all_biases_from

_ONE_HEAD_SIZE: Mapping[str, tuple[str, ...]] = {"num_kv_heads": (), "head_dim": ()}
_LAYER_NORM = {"norm": "layernorm", "gated_mlp": False}
_GPT2 = Family(
    architecture="GPT2LMHeadModel",
    keys={
        **_ONE_HEAD_SIZE,
        "hidden_size": ("n_embd", "hidden_size"),
        "num_layers": ("n_layer", "num_hidden_layers"),
        "num_heads": ("n_head", "num_attention_heads"),
        "ffn_size": ("n_inner",),
        "max_position": ("n_positions", "max_position_embeddings", "n_ctx"),
    },
    defaults={"max_position": 1024},
    ffn_multiple=4,
    tied=True,
    fixed={**_LAYER_NORM, **ALL_BIASES, "positions": "learned"},
    activation_key="activation_function",
    activation="gelu_new",
    eps_key="layer_norm_epsilon",
    eps=1e-5,
)
_COHERE = Family(
    architecture="CohereForCausalLM",
    defaults={"max_position": 8192},
    tied=True,
    flags={**ATTENTION_BIAS, "qk_norm": ("use_qk_norm", False)},
    fixed={"norm": "layernorm_no_bias", "parallel_block": "shared", "qk_norm_kind": "each_head"},
    eps_key="layer_norm_eps",
    eps=1e-5,
    rope_theta=500_000.0,
)

LAYER_NORM_FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "gpt2": _GPT2,
        "gpt_bigcode": replace(
            _GPT2, architecture="GPTBigCodeForCausalLM", activation="gelu_pytorch_tanh"
        ),
        "gptj": replace(
            _GPT2,
            architecture="GPTJForCausalLM",
            defaults={"max_position": 2048},
            tied=False,
            fixed={**_LAYER_NORM, "mlp_bias": True, "parallel_block": "shared", "head_bias": True},
        ),
        "gpt_neo": replace(
            _GPT2,
            architecture="GPTNeoForCausalLM",
            keys={
                **_ONE_HEAD_SIZE,
                "num_layers": ("num_layers", "num_hidden_layers"),
                "num_heads": ("num_heads", "num_attention_heads"),
            },
            defaults={"max_position": 2048},
            fixed={**_LAYER_NORM, "attn_out_bias": True, "mlp_bias": True, "positions": "learned"},
        ),
        "gpt_neox": Family(
            architecture="GPTNeoXForCausalLM",
            keys=_ONE_HEAD_SIZE,
            defaults={"max_position": 2048},
            flags={"qkv_bias": ("attention_bias", True), "attn_out_bias": ("attention_bias", True)},
            fixed={**_LAYER_NORM, "mlp_bias": True},
            activation="gelu",
            eps_key="layer_norm_eps",
            eps=1e-5,
            rotary_fraction=0.25,
        ),
        "opt": replace(
            _GPT2,
            architecture="OPTForCausalLM",
            keys={**_ONE_HEAD_SIZE, "ffn_size": ("ffn_dim",)},
            defaults={"max_position": 2048},
            ffn_multiple=0,
            flags=all_biases_from("enable_bias", default=True),
            fixed={**_LAYER_NORM, "positions": "learned", "extra_positions": 2},
            activation="relu",
        ),
        "bloom": replace(
            _GPT2,
            architecture="BloomForCausalLM",
            keys={
                **_GPT2.keys,
                "hidden_size": ("hidden_size", "n_embed"),
                "ffn_size": (),
                "max_position": ("seq_length",),
            },
            defaults={"max_position": 2048},
            fixed={**_LAYER_NORM, **ALL_BIASES, "positions": "alibi", "embedding_norm": True},
            activation="gelu",
        ),
        "mpt": replace(
            _GPT2,
            architecture="MptForCausalLM",
            keys={
                **_ONE_HEAD_SIZE,
                "hidden_size": ("d_model", "hidden_size"),
                "num_layers": ("n_layers", "num_hidden_layers"),
                "num_heads": ("n_heads", "num_attention_heads"),
                "ffn_size": (),
                "max_position": ("max_seq_len",),
            },
            defaults={"max_position": 2048},
            fixed={"norm": "layernorm_no_bias", "gated_mlp": False, "positions": "alibi"},
            activation="gelu",
        ),
        "falcon": Family(
            architecture="FalconForCausalLM",
            keys={
                **_ONE_HEAD_SIZE,
                "num_layers": ("num_hidden_layers", "n_layer"),
                "num_heads": ("num_attention_heads", "n_head"),
                "ffn_size": ("ffn_hidden_size",),
            },
            defaults={"max_position": 2048},
            ffn_multiple=4,
            tied=True,
            flags=all_biases_from("bias", default=False),
            fixed=_LAYER_NORM,
            activation_key="activation",
            activation="gelu",
            eps_key="layer_norm_epsilon",
            eps=1e-5,
        ),
        "phi": Family(
            architecture="PhiForCausalLM",
            defaults={"max_position": 2048},
            fixed={**_LAYER_NORM, **ALL_BIASES, "parallel_block": "shared", "head_bias": True},
            activation="gelu_new",
            eps_key="layer_norm_eps",
            eps=1e-5,
            rotary_fraction=0.5,
        ),
        "stablelm": Family(
            architecture="StableLmForCausalLM",
            defaults={"max_position": 4096, "num_kv_heads": 32},
            flags={"qkv_bias": ("use_qkv_bias", False), "qk_norm": ("qk_layernorm", False)},
            fixed={"norm": "layernorm", "qk_norm_kind": "each_head"},
            eps_key="layer_norm_eps",
            eps=1e-5,
            rotary_fraction=0.25,
        ),
        "cohere": _COHERE,
        "cohere2": replace(
            _COHERE,
            architecture="Cohere2ForCausalLM",
            flags=ATTENTION_BIAS,
            rope_theta=10_000.0,
            windows="pattern",
            window=4096,
            every=4,
        ),
        "starcoder2": Family(
            architecture="Starcoder2ForCausalLM",
            defaults={"max_position": 4096, "num_kv_heads": 2},
            tied=True,
            flags=all_biases_from("use_bias", default=True),
            fixed=_LAYER_NORM,
            activation="gelu_pytorch_tanh",
            eps_key="norm_epsilon",
            eps=1e-5,
            windows="all",
        ),
        "nemotron": Family(
            architecture="NemotronForCausalLM",
            defaults={"max_position": 4096},
            flags={**ATTENTION_BIAS, "mlp_bias": ("mlp_bias", False)},
            fixed=_LAYER_NORM,
            activation="relu2",
            eps_key="norm_eps",
            eps=1e-5,
            rotary_fraction=0.5,
        ),
    }
)
