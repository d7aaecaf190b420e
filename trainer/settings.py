"""The settings of a run: what the model is, how it is trained on the GPUs, and what the run does.

Every field is one flat string setting `--name value`; trainer.config reads and checks them. The
`help` of a field is what --help and docs/trainer.md say about it.
"""

from dataclasses import dataclass, field
from typing import Any


def setting(text: str, *, default: Any, optional: bool = False) -> Any:
    """A dataclass field with its explanation.

    optional: may be left out even where the others of its group are given.
    """
    return field(default=default, metadata={"help": text, "optional": optional})


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """A dense decoder. The defaults make one of about a million parameters."""

    hidden_size: int = setting("width of the residual stream", default=128)
    num_layers: int = setting("number of blocks", default=4)
    num_heads: int = setting("query heads", default=4)
    num_kv_heads: int = setting("key and value heads", default=2)
    head_dim: int = setting("width of one head", default=32)
    ffn_size: int = setting("width of one up projection", default=352)
    vocab_size: int = setting("rows of the embedding", default=2048)
    max_position: int = setting("longest sequence", default=2048)
    tied_embeddings: bool = setting("the head uses the embedding's weight", default=True)
    gated_mlp: bool = setting("the MLP has a gate projection", default=True)
    activation: str = setting(
        "silu, gelu, gelu_tanh, gelu_new, relu, relu2 or xielu", default="silu"
    )
    norm: str = setting("rmsnorm, layernorm, layernorm_no_bias or nonparametric", default="rmsnorm")
    qkv_bias: bool = setting("biases on the q, k and v projections", default=False)
    attn_out_bias: bool = setting("bias on attention's output projection", default=False)
    mlp_bias: bool = setting("biases on the MLP's projections", default=False)
    qk_norm: bool = setting("norms on queries and keys", default=False)
    positions: str = setting("rope, learned, alibi or none", default="rope")
    rope_theta: float | None = setting(
        "base of the rotary frequencies", default=10000.0, optional=True
    )
    sliding_window: int | None = setting(
        "tokens that attention looks back", default=None, optional=True
    )
    num_windowed_layers: int | None = setting(
        "layers with the window; empty for all; every k-th of them has none",
        default=None,
        optional=True,
    )
    num_unrotated_layers: int = setting(
        "layers without rotary positions, every k-th", default=0, optional=True
    )
    rope_scaling: str = setting(
        "JSON in Hugging Face's form (llama3, linear or yarn), or empty", default="", optional=True
    )
    norm_layout: str = setting("pre, post, or sandwich (both)", default="pre", optional=True)
    parallel_block: str = setting(
        "attention and MLP side by side: none, shared (one norm), separate",
        default="none",
        optional=True,
    )
    qk_norm_kind: str = setting(
        "head (one weight for all heads), each_head, or all (over all heads at once)",
        default="head",
        optional=True,
    )
    rotary_fraction: float = setting("share of a head that is rotated", default=1.0, optional=True)
    norm_eps: float = setting("epsilon of the norms", default=1e-5, optional=True)
    embedding_scale: float = setting("factor on the embeddings", default=1.0, optional=True)
    attention_scale: float | None = setting(
        "factor on attention's scores; empty for head_dim ** -0.5", default=None, optional=True
    )
    residual_scale: float = setting(
        "factor on what each part adds to the stream", default=1.0, optional=True
    )
    logit_scale: float = setting("factor on the logits", default=1.0, optional=True)
    extra_positions: int = setting(
        "rows before the first of the learned positions", default=0, optional=True
    )
    logit_softcap: float | None = setting("soft cap on the logits", default=None, optional=True)
    attn_softcap: float | None = setting("soft cap on the scores", default=None, optional=True)
    head_bias: bool = setting("bias on the output head", default=False, optional=True)
    embedding_norm: bool = setting("a norm after the embedding", default=False, optional=True)
    final_norm: bool = setting("a norm before the output head", default=True, optional=True)
    embedding_size: int | None = setting(
        "width of the embedding, projected in and out; empty for hidden_size",
        default=None,
        optional=True,
    )
    activation_parameters: int = setting(
        "trainable numbers in a block's activation (xielu: 2)", default=0, optional=True
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSettings:
    """How the model is trained on the GPUs."""

    precision: str = setting("bf16, fp8, mxfp8, nvfp4 or fp32", default="fp32")
    activation_checkpointing: str = setting("none, selective or full", default="none")
    checkpoint_every: int = setting(
        "selective: 0 per operation, k each k-th block whole", default=0
    )
    micro_batch: int = setting("sequences per GPU per forward", default=2)
    seq_len: int = setting("tokens per sequence", default=256)
    accumulation_steps: int = setting("forwards per step", default=1)
    gradient_sync: str = setting(
        "reduce gradients in each micro step, or in the last", default="each"
    )
    shard_degree: int = setting("GPUs that one copy is split over; 0: all", default=0)
    replica_degree: int = setting("copies (HSDP)", default=1)
    reshard_after_forward: bool = setting("free gathered blocks after their forward", default=True)
    loss_chunks: int = setting("slices of the tokens that the loss is taken on", default=1)
    optimizer: str = setting("adamw, adamw_bf16 or adamw_8bit", default="adamw")
    compile: bool = setting("torch.compile each block", default=False)
    fp8_recipe: str = setting(
        "tensorwise, rowwise or rowwise_with_gw_hp", default="tensorwise", optional=True
    )
    fp8_gather: bool = setting("gather fp8 weights (tensorwise only)", default=False, optional=True)
    low_precision_emulation: bool = setting(
        "emulate fp8 and mxfp8 where the hardware lacks them (slow, for tests)",
        default=False,
        optional=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """What the run does."""

    num_tokens: int = setting("tokens to train on; 0: see num_steps", default=0)
    num_steps: int = setting("optimizer steps; 0: from num_tokens", default=0)
    learning_rate: float = setting("peak learning rate", default=3e-4)
    min_learning_rate_fraction: float = setting("last learning rate over the peak", default=0.1)
    warmup_steps: int = setting("steps of linear warm-up", default=0)
    schedule: str = setting("cosine, or wsd (warm-up, stable, decay)", default="cosine")
    decay_fraction: float = setting("wsd: share of the steps that decay", default=0.1)
    weight_decay: float = setting(
        "on matrices and embeddings, not on norms and biases", default=0.1
    )
    beta1: float = setting("AdamW", default=0.9)
    beta2: float = setting("AdamW", default=0.95)
    epsilon: float = setting("AdamW", default=1e-8)
    grad_clip: float = setting("norm that gradients are clipped to; 0: not", default=1.0)
    z_loss: float = setting("factor on the squared log-partition", default=0.0)
    seed: int = setting("of the weights and of the order of the data", default=0)
    data: str = setting(
        "synthetic, or a folder of .bin, .jsonl or .parquet shards", default="synthetic"
    )
    tokenizer: str = setting("tokenizer.json for text shards", default="")
    text_field: str = setting("field of a text shard that has the text", default="text")
    bad_shards: str = setting("fail, or skip", default="fail")
    document_mask: bool = setting("attention stops at the borders of documents", default=False)
    end_of_text: int | None = setting("token that ends a document", default=None)
    output_dir: str = setting("where metrics.jsonl and result.json go", default="out")
    checkpoint_dir: str = setting("where checkpoints go; empty: none are written", default="")
    checkpoint_every_s: float = setting(
        "seconds between checkpoints; 0: only at the end", default=1800.0
    )
    checkpoint_every_steps: int = setting("steps between checkpoints; 0: by time", default=0)
    keep_checkpoints: int = setting("newest complete checkpoints that are kept", default=2)
    resume: str = setting(
        "auto (newest complete checkpoint, if any), never, or a folder", default="auto"
    )
    init_from: str = setting("folder of Hugging Face safetensors to start from", default="")
    export_to: str = setting(
        "folder that the weights go to, as Hugging Face safetensors", default=""
    )
    family: str = setting("naming of init_from and export_to; empty: from config.json", default="")
    probe: int = setting("measure this many steps on synthetic data and stop; 0: train", default=0)
    skip_steps: int = setting("first steps that are left out of the speed", default=2)
    hang_after_s: float = setting(
        "a step that takes longer is a hang; 0: wait for ever", default=1800.0
    )
    peak_flops_per_s: float = setting(
        "dense FLOP/s of one GPU that MFU is a share of; 0: no MFU", default=0.0
    )
    log_every: int = setting("steps between progress lines", default=1)
