"""Models that a config.json can describe and the advisor does not model, each with the reason."""

from collections.abc import Mapping
from types import MappingProxyType

from advisor.config_reader import ConfigReader, shown
from advisor.errors import UnsupportedModel

_EXPERTS = (
    "is a mixture of experts: each token uses a part of the parameters, and experts have "
    "communication of their own; only dense decoders are modelled"
)
_ENCODER = "is an encoder: it has no next-token loss; only dense decoders are modelled"
_ENCODER_DECODER = "has an encoder and a decoder; only dense decoders are modelled"
_STATE_SPACE = (
    "has state-space or recurrent layers instead of attention; only dense decoders are modelled"
)
_HYBRID = "mixes attention with state-space or linear layers; only dense decoders are modelled"
_MEDIA = (
    "takes images, audio or video; give the config of its language model alone (the object under "
    "text_config, with its own model_type)"
)
_LATENT = "compresses keys and values (multi-head latent attention), which is not modelled"

_REASONS: tuple[tuple[str, str], ...] = (
    (
        _EXPERTS,
        "afmoe arctic bailing_moe dbrx deepseek deepseek_v2 deepseek_v3 deepseek_v32 dots1 "
        "ernie4_5_moe flex_olmo glm4_moe gpt_oss granitemoe granitemoeshared grok-1 "
        "hunyuan_v1_moe jetmoe kimi_k2 llama4 llama4_text longcat_flash minimax_m2 mixtral olmoe "
        "phimoe qwen2_moe qwen3_moe switch_transformers",
    ),
    (
        _ENCODER,
        "albert bert big_bird camembert deberta deberta-v2 distilbert electra ernie esm funnel "
        "longformer megatron-bert modernbert mpnet nomic_bert roberta roformer xlm-roberta "
        "xlm-roberta-xl xlnet",
    ),
    (
        _ENCODER_DECODER,
        "bart bigbird_pegasus blenderbot encoder-decoder fsmt led longt5 m2m_100 marian mbart mt5 "
        "mvp nllb-moe pegasus prophetnet t5 t5gemma umt5",
    ),
    (_STATE_SPACE, "falcon_mamba mamba mamba2 retnet rwkv rwkv7 xlstm"),
    (
        _HYBRID,
        "bamba falcon_h1 granitemoehybrid jamba kimi_linear lfm2 minimax nemotron_h olmo_hybrid "
        "plamo2 qwen3_5 qwen3_5_moe qwen3_next recurrent_gemma zamba zamba2",
    ),
    (
        _MEDIA,
        "aria blip-2 chameleon clip clvp fuyu gemma3n gemma4 glm4v idefics idefics2 idefics3 "
        "instructblip internvl janus kosmos-2 llava llava_next llava_onevision mllama "
        "molmo paligemma phi3_v phi4_multimodal pixtral qwen2_5_omni qwen2_5_vl qwen2_audio "
        "qwen2_vl qwen3_vl siglip smolvlm speech_to_text vit whisper",
    ),
    (_LATENT, "deepseek_vl minicpm3"),
)
REFUSED: Mapping[str, str] = MappingProxyType(
    {name: reason for reason, names in _REASONS for name in names.split()}
)
_EXPERT_KEYS = (
    *("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"),
    *("num_moe_experts", "num_experts_per_tok", "num_experts_per_token", "moe_topk"),
)
_LAYER_KINDS = ("full_attention", "sliding_attention")


def refuse_type(config: ConfigReader, model_type: str) -> None:
    """Raises UnsupportedModel for a model type that is known and not modelled."""
    reason = REFUSED.get(model_type)
    if reason is not None:
        raise UnsupportedModel(config.where("model_type"), f"{model_type} {reason}")


def refuse_features(config: ConfigReader) -> None:
    """Raises UnsupportedModel for experts, encoders and quantised weights, whatever the type."""
    for key in _EXPERT_KEYS:
        if config.value(key) not in (None, False, 0, 1):
            raise UnsupportedModel(config.where(key), f"a model with {key} {_EXPERTS}")
    if config.flag("is_encoder_decoder", default=False):
        raise UnsupportedModel(config.where("is_encoder_decoder"), f"the model {_ENCODER_DECODER}")
    if config.value("kv_lora_rank") is not None:
        raise UnsupportedModel(config.where("kv_lora_rank"), f"the model {_LATENT}")
    if config.value("quantization_config"):
        raise UnsupportedModel(
            config.where("quantization_config"),
            "quantised weights cannot be trained: give the config of the model that they were made "
            "from, or leave quantization_config out to train the same shape",
        )


def refuse_layers(config: ConfigReader, layer_types: tuple[str, ...]) -> None:
    """Raises UnsupportedModel for layers that are not attention, full or windowed."""
    for kind in layer_types:
        if kind not in _LAYER_KINDS:
            raise UnsupportedModel(
                config.where("layer_types"),
                f"layers of kind {shown(kind)} are not modelled, only {', '.join(_LAYER_KINDS)}",
            )
