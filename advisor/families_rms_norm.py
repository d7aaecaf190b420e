"""Families with root-mean-square norms (or norms without weights): Llama and what follows it.

Source of keys, defaults and fixed properties: the configuration and modelling classes of
transformers 5.24 (https://github.com/huggingface/transformers, retrieved 2026-12-01); for families
without a class there (aquila, baichuan, exaone, internlm, internlm2, minicpm, plamo) the code
beside their checkpoints on huggingface.co, as described in advisor/data/models.csv.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from advisor.family import ATTENTION_BIAS, Family, all_biases_from

_QKV_BIAS_TRUE = {"qkv_bias": ("attention_bias", True)}
_LLAMA = Family(
    architecture="LlamaForCausalLM",
    defaults={"max_position": 2048},
    flags={**ATTENTION_BIAS, "mlp_bias": ("mlp_bias", False)},
)
# Families whose code is beside the checkpoints.
_BESIDE = replace(_LLAMA, flags={})
_MISTRAL = Family(
    architecture="MistralForCausalLM",
    defaults={"max_position": 131_072, "num_kv_heads": 8},
    windows="all",
    window=4096,
)
_QWEN2 = Family(
    architecture="Qwen2ForCausalLM",
    defaults={"max_position": 32_768, "num_kv_heads": 32},
    fixed={"qkv_bias": True},
    windows="flag",
    window=4096,
)
_GEMMA = Family(
    architecture="GemmaForCausalLM",
    defaults={"max_position": 8192, "num_kv_heads": 16, "head_dim": 256, "vocab_size": 256_000},
    tied=True,
    flags=ATTENTION_BIAS,
    activation_key="hidden_activation",
    activation="gelu_pytorch_tanh",
)
_GEMMA2 = replace(
    _GEMMA,
    architecture="Gemma2ForCausalLM",
    defaults={**_GEMMA.defaults, "num_kv_heads": 4},
    fixed={"norm_layout": "sandwich"},
    windows="pattern",
    window=4096,
    every=2,
)
_OLMO = replace(
    _LLAMA,
    architecture="OlmoForCausalLM",
    flags=ATTENTION_BIAS,
    fixed={"norm": "nonparametric"},
    eps=1e-5,
)
_OLMO2 = replace(
    _OLMO,
    architecture="Olmo2ForCausalLM",
    fixed={"norm_layout": "post", "qk_norm": True, "qk_norm_kind": "all"},
)
_GLM = Family(
    architecture="GlmForCausalLM",
    defaults={"max_position": 131_072, "num_kv_heads": 2, "head_dim": 128},
    flags=_QKV_BIAS_TRUE,
    eps=1.5625e-7,
    rotary_fraction=0.5,
)
_INTERNLM = replace(
    _BESIDE,
    architecture="InternLMForCausalLM",
    flags={"qkv_bias": ("bias", True), "attn_out_bias": ("bias", True)},
)

RMS_NORM_FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "llama": _LLAMA,
        "mistral": _MISTRAL,
        "ministral": replace(_MISTRAL, architecture="MinistralForCausalLM"),
        "ministral3": Family(
            architecture="Ministral3ForCausalLM",
            defaults={"max_position": 262_144, "num_kv_heads": 8, "head_dim": 128},
            eps=1e-5,
            rope_theta=1_000_000.0,
            windows="all",
        ),
        "qwen2": _QWEN2,
        "qwen3": replace(
            _QWEN2,
            architecture="Qwen3ForCausalLM",
            defaults={**_QWEN2.defaults, "head_dim": 128},
            flags=ATTENTION_BIAS,
            fixed={"qk_norm": True},
        ),
        "gemma": _GEMMA,
        "gemma2": _GEMMA2,
        # Released configs of the larger ones name only what differs from the class.
        "gemma3_text": replace(
            _GEMMA2,
            architecture="Gemma3ForCausalLM",
            defaults={
                "hidden_size": 2304,
                "num_layers": 26,
                "num_heads": 8,
                "num_kv_heads": 4,
                "head_dim": 256,
                "ffn_size": 9216,
                "vocab_size": 262_208,
                "max_position": 131_072,
            },
            fixed={"norm_layout": "sandwich", "qk_norm": True},
            rope_theta=1_000_000.0,
            every=6,
        ),
        "phi3": Family(
            architecture="Phi3ForCausalLM",
            defaults={"max_position": 4096},
            eps=1e-5,
            windows="all",
        ),
        "olmo": _OLMO,
        "olmo2": _OLMO2,
        "olmo3": replace(
            _OLMO2,
            architecture="Olmo3ForCausalLM",
            rope_theta=500_000.0,
            windows="pattern",
            window=4096,
            every=4,
        ),
        "granite": replace(_LLAMA, architecture="GraniteForCausalLM"),
        "smollm3": replace(
            _LLAMA,
            architecture="SmolLM3ForCausalLM",
            defaults={"max_position": 32_768, "num_kv_heads": 4},
            tied=True,
            rope_theta=2_000_000.0,
            windows="flag",
        ),
        "glm": _GLM,
        "glm4": replace(_GLM, architecture="Glm4ForCausalLM", fixed={"norm_layout": "sandwich"}),
        "exaone": replace(
            _BESIDE,
            architecture="ExaoneForCausalLM",
            keys={"num_layers": ("num_layers", "num_hidden_layers")},
            tied=True,
            activation_key="activation_function",
            eps_key="layer_norm_epsilon",
            eps=1e-5,
        ),
        "exaone4": Family(
            architecture="Exaone4ForCausalLM",
            defaults={"max_position": 2048, "num_kv_heads": 32},
            fixed={"norm_layout": "post", "qk_norm": True},
            eps=1e-5,
            windows="pattern",
            window=4096,
            every=4,
        ),
        "arcee": replace(
            _LLAMA,
            architecture="ArceeForCausalLM",
            defaults={"max_position": 4096},
            fixed={"gated_mlp": False},
            activation="relu2",
            eps=1e-5,
        ),
        "apertus": Family(
            architecture="ApertusForCausalLM",
            defaults={"max_position": 65_536},
            flags=ATTENTION_BIAS,
            fixed={"gated_mlp": False, "qk_norm": True, "activation_parameters": 2},
            activation="xielu",
            eps=1e-5,
            rope_theta=12_000_000.0,
        ),
        "seed_oss": Family(
            architecture="SeedOssForCausalLM",
            defaults={"max_position": 524_288, "num_kv_heads": 8, "head_dim": 128},
            flags={
                **_QKV_BIAS_TRUE,
                "attn_out_bias": ("attention_out_bias", False),
                "mlp_bias": ("mlp_bias", False),
            },
        ),
        "ernie4_5": replace(
            _LLAMA,
            architecture="Ernie4_5ForCausalLM",
            defaults={"max_position": 131_072, "num_kv_heads": 2, "head_dim": 128},
            tied=True,
            flags=all_biases_from("use_bias", default=False),
            eps=1e-5,
            rope_theta=500_000.0,
        ),
        "hunyuan_v1_dense": replace(
            _LLAMA,
            architecture="HunYuanDenseV1ForCausalLM",
            flags=ATTENTION_BIAS,
            fixed={"qk_norm": True},
            eps=1e-5,
        ),
        "internlm": _INTERNLM,
        "internlm2": replace(_INTERNLM, architecture="InternLM2ForCausalLM"),
        "baichuan": replace(
            _BESIDE,
            architecture="BaichuanForCausalLM",
            keys={
                "num_kv_heads": (),
                "max_position": ("max_position_embeddings", "model_max_length"),
            },
        ),
        "aquila": replace(_BESIDE, architecture="AquilaForCausalLM"),
        "minicpm": replace(_BESIDE, architecture="MiniCPMForCausalLM", tied=True),
        "plamo": replace(
            _BESIDE,
            architecture="PlamoForCausalLM",
            keys={"num_kv_heads": ()},
            fixed={"parallel_block": "shared"},
        ),
    }
)
