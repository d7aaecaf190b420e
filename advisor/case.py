"""Case: what a stored result says, in the terms of the laws; or why it says too little."""

import re
from dataclasses import dataclass, replace

from advisor.catalog import find_gpu
from advisor.errors import AdvisorError
from advisor.hardware import Gpu
from advisor.model import ModelShape, Positions
from advisor.plan import PRECISIONS, Precision
from advisor.result import Result
from advisor.settings import STATE_BYTES, Settings, checkpointing_fractions
from advisor.stack import Stack, load_stacks

# A fused or 16-bit format computes at the bf16 rate; there is no column of its own for it.
_PRECISION_OF: dict[str, Precision] = {
    "fp16": "bf16",
    **{str(name): name for name in PRECISIONS},
}
_PARALLEL = re.compile(
    r"\b(?:TP|PP|CP|SP|EP)[ =-]?(\d+)|(\d+)-way (?:SP|TP)|context parallel (\d+)"
)
_EVERY_NTH = re.compile(r"every (\d+)(?:st|nd|rd|th)? ", re.IGNORECASE)
# Those whose states are two per parameter (Adam and its kind), or are stated in the text.
_KNOWN_OPTIMIZER = re.compile(r"adam|states|[48]-?bit", re.IGNORECASE)
_DATE = re.compile(r"20\d\d-\d\d(-\d\d)?")
# What a note says of a run that the laws cannot be held against.
_UNUSABLE = (
    (re.compile(r"SUSPECT|APPROXIMATE"), "the source's figure is marked as doubtful"),
    (re.compile(r"linear attention"), "hybrid attention"),
    (
        re.compile(r"\(bug\b|before (torchao )?PR\b"),
        "the source shows this run as one with a defect that was then mended",
    ),
    (re.compile(r"as previous with"), "the settings are stated by reference to another run"),
)
# What the GPU's name or a note says of a speed that the laws cannot be held against.
_UNTIMED = (
    ("power limited", "the source says that its GPUs were power limited"),
    ("warm-up included", "warm-up is included in the time"),
    ("baseline, unpacked", "sequences are not packed: their length is an upper bound"),
    ("document-masked", "attention is masked by document: its work is not stated"),
)
_MIN_VOCAB, _MAX_VOCAB = 8_000, 300_000
_MEGATRON_PLAIN_HIDDEN = 4096
_HEAD_DIMS = (64, 96, 128, 256)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A result that the laws can predict. `why_not_*` says what is missing, if anything is."""

    result: Result
    shape: ModelShape
    settings: Settings
    stack: Stack
    gpu: Gpu
    why_not_memory: str | None
    why_not_throughput: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutOfScope:
    """A result that the laws do not describe, with the reason."""

    result: Result
    why_not: str


def case_of(result: Result) -> Case | OutOfScope:
    """The case of a result; OutOfScope with the first reason found."""
    why_not = _outside(result)
    if why_not is not None:
        return OutOfScope(result=result, why_not=why_not)
    try:
        gpu = find_gpu(result.gpu or "")
    except AdvisorError:
        return OutOfScope(result=result, why_not=f"GPU {result.gpu or 'not stated'} is not known")
    stack = stack_of(result)
    shape = _shape_of(result)
    if isinstance(shape, str):
        return OutOfScope(result=result, why_not=shape)
    settings = _settings_of(result, stack)
    if isinstance(settings, str):
        return OutOfScope(result=result, why_not=settings)
    return Case(
        result=result,
        shape=shape,
        settings=settings,
        stack=stack,
        gpu=gpu,
        why_not_memory=_why_not_memory(result, stack),
        why_not_throughput=_why_not_throughput(result, stack),
    )


def _notes(result: Result) -> str:
    return result.notes or ""


def _outside(result: Result) -> str | None:
    notes = _notes(result)
    text = f"{notes} {result.model_name or ''} {result.optimizer or ''}".lower()
    if "lora" in text:
        return "adapters only (LoRA): most parameters are frozen"
    if _is_model_parallel(notes):
        return "tensor, pipeline, sequence or context parallelism"
    return next((reason for pattern, reason in _UNUSABLE if pattern.search(notes)), None)


def _is_model_parallel(notes: str) -> bool:
    if "async TP" in notes or "Ulysses" in notes:
        return True
    degrees = (
        int(group)
        for match in _PARALLEL.finditer(notes)
        for group in match.groups()
        if group and group.isdigit()
    )
    return any(degree > 1 for degree in degrees)


def _why_not_memory(result: Result, stack: Stack) -> str | None:
    if result.cpu_offload or "offload" in _notes(result).lower():
        return "states or activations are offloaded to the host"
    if "upper bound" in _notes(result) or "unpacked" in _notes(result).split(";")[-2:][0]:
        return "the sequence length is only an upper bound"
    if result.framework == "other" and stack.name in _UNLIKE:
        return "another program on the same code base, with a memory policy of its own"
    if result.peak_mem_gib is None and not result.oom:
        return "no peak memory"
    if result.optimizer and not _KNOWN_OPTIMIZER.search(result.optimizer):
        return "an optimizer whose states are not known"
    return None


def _why_not_throughput(result: Result, stack: Stack) -> str | None:
    if result.tokens_per_s_per_gpu is None:
        return "no tokens per second"
    if result.cpu_offload or "offload" in _notes(result).lower():
        return "states or activations are offloaded to the host"
    if result.framework == "other" and stack.name in _UNLIKE:
        return "another program on the same code base"
    if result.optimizer and "muon" in result.optimizer.lower():
        return "an optimizer with work of its own (Muon)"
    text = f"{result.gpu} {_notes(result)}"
    return next((reason for words, reason in _UNTIMED if words in text), None)


def _shape_of(result: Result) -> ModelShape | str:
    sizes = (result.hidden, result.layers, result.heads, result.ffn)
    if any(size is None for size in sizes):
        return "hidden size, layers, heads or MLP width is not stated"
    hidden, layers, heads, ffn = (int(size or 0) for size in sizes)
    shapes = [
        _row_shape(result, hidden=hidden, layers=layers, heads=heads, ffn=ffn, head_dim=head_dim)
        for head_dim in _head_dims(hidden, heads)
    ]
    if result.vocab is None:
        return _with_vocabulary(shapes[0], result)
    if result.params_b is None:
        return shapes[0]
    # The head size is not a column: the printed parameter count tells it.
    wanted = result.params_b * 1e9
    default_gap = abs(shapes[0].num_parameters / wanted - 1)
    if default_gap < 0.02:
        return shapes[0]
    return min(shapes, key=lambda shape: abs(shape.num_parameters / wanted - 1))


def _row_shape(
    result: Result, *, hidden: int, layers: int, heads: int, ffn: int, head_dim: int
) -> ModelShape:
    kind = result.mlp_type or "swiglu"
    gated = kind.endswith("glu") or kind.startswith("gated")
    return ModelShape(
        name=result.model_name or "unnamed",
        family="result",
        hidden_size=hidden,
        num_layers=layers,
        num_heads=heads,
        num_kv_heads=result.kv_heads or heads,
        head_dim=head_dim,
        ffn_size=ffn,
        vocab_size=result.vocab or 1,
        max_position=result.seq_len or 1,
        tied_embeddings=bool(result.tied_embeddings),
        gated_mlp=gated,
        # No column names the norm or the positions: the kind of MLP tells the family.
        norm="rmsnorm" if gated else "layernorm",
        positions="rope" if gated else _positions(result),
    )


def _positions(result: Result) -> Positions:
    """Learned where the source counts such parameters; "alibi" adds none, and rotates nothing."""
    return "learned" if "learned position embeddings" in _notes(result) else "alibi"


def _with_vocabulary(shape: ModelShape, result: Result) -> ModelShape | str:
    """The shape with the vocabulary that the printed parameter count leaves room for."""
    if result.params_b is not None:
        copies = 1 if shape.tied_embeddings else 2
        room = result.params_b * 1e9 - shape.num_layers * shape.block_parameters
        vocab = round(room / (copies * shape.hidden_size))
        if _MIN_VOCAB <= vocab <= _MAX_VOCAB:
            return replace(shape, vocab_size=vocab)
    return "vocabulary is not stated and does not follow from the parameter count"


def _head_dims(hidden: int, heads: int) -> list[int]:
    own = max(hidden // heads, 1)
    return [own, *(size for size in _HEAD_DIMS if size != own)]


def _settings_of(result: Result, stack: Stack) -> Settings | str:
    gpus = result.gpus_total
    if gpus is None or result.seq_len is None or result.micro_batch_per_gpu is None:
        return "GPU count, sequence length or micro batch is not stated"
    mode = result.activation_checkpointing or "unknown"
    if mode == "unknown" and "not in message" not in _notes(result):
        mode = _unstated_checkpointing(result, stack)
    if mode in ("", "unknown"):
        return "activation checkpointing is not stated"
    precision = _PRECISION_OF.get(result.compute_dtype or "")
    if precision is None:
        return f"compute format {result.compute_dtype or 'not stated'} is not modelled"
    kept, per_op, full = checkpointing_fractions(mode, _checkpoint_every(result, mode))
    gpus_per_instance = max(min(gpus, gpus // result.nodes if result.nodes else 8), 1)
    shard = _shard_degree(result, gpus, gpus_per_instance)
    steps = float(result.grad_accum or 1)
    return Settings(
        micro_batch=float(result.micro_batch_per_gpu),
        seq_len=float(result.seq_len),
        num_gpus=float(gpus),
        gpus_per_instance=float(gpus_per_instance),
        shard_degree=float(shard),
        replica_degree=float(gpus) / shard,
        accumulation_steps=steps,
        defer_sync=float(stack.engine == "ddp" and steps > 1),
        reshard=float(result.sharding not in ("shard_grad_op",)),
        loss_chunks=8.0 if "chunked c" in _notes(result).lower() else 1.0,
        kept_fraction=kept,
        op_fraction=per_op,
        full_fraction=full,
        precision=PRECISIONS.index(precision),
        state_bytes=_state_bytes(result),
        compiled=float(stack.default_compile if result.compile is None else result.compile),
    )


def _unstated_checkpointing(result: Result, stack: Stack) -> str:
    """What a program does when its result does not say.

    Megatron recomputes nothing unless told (TransformerConfig.recompute_granularity is None), and
    models of about 8B fit without; recipes of larger ones recompute or offload, their tables do
    not say what.
    """
    is_small = result.hidden is not None and result.hidden <= _MEGATRON_PLAIN_HIDDEN
    if stack.name.startswith("megatron") and is_small and result.grad_accum:
        return "none"
    return stack.default_checkpointing


def _checkpoint_every(result: Result, mode: str) -> int:
    if mode != "selective":
        return 0
    match = _EVERY_NTH.search(_notes(result))
    return int(match.group(1)) if match else 0


def _shard_degree(result: Result, gpus: int, gpus_per_instance: int) -> int:
    if result.sharding == "hybrid":
        return gpus_per_instance
    return 1 if result.sharding == "none" else gpus


def _state_bytes(result: Result) -> float:
    text = (result.optimizer or "").lower()
    if "8bit" in text or "8-bit" in text:
        return STATE_BYTES["adamw_8bit"]
    if "4bit" in text or "4-bit" in text:
        return 2.0 * (0.5 + 4.0 / 128.0)
    if "bf16 states" in text or "bf16 m and v" in text:
        return STATE_BYTES["adamw_bf16"]
    if result.param_dtype == "bf16" and "fp32" not in text and "distributed" not in text:
        return STATE_BYTES["adamw_bf16"]
    return STATE_BYTES["adamw"]


def stack_of(result: Result) -> Stack:
    """The stack of a result: its source's own, else the generic one of its framework.

    The result's columns override the stack where they state the parameters' type.
    """
    stack = load_stacks()[_stack_name(result)]
    if "flash_attention_3" in _notes(result) or ", FA3" in _notes(result):
        stack = replace(stack, attention="vendor")
    text = (result.optimizer or "").lower()
    in_fp32 = result.param_dtype == "fp32" or "models in fp32" in _notes(result)
    if in_fp32 and stack.weight_bytes < 4:
        return replace(stack, weight_bytes=4.0, master_bytes=0.0, grad_bytes=4.0)
    if result.param_dtype == "bf16" and stack.weight_bytes > 2:
        master = 4.0 if "fp32 master" in text else 0.0
        return replace(stack, weight_bytes=2.0, grad_bytes=2.0, master_bytes=master)
    return stack


def _stack_name(result: Result) -> str:
    url = result.source_url.lower()
    if "pytorch/torchtitan" in url or ("pytorch/ao" in url and "torchtitan" in _notes(result)):
        return _torchtitan(result)
    if "prime-rl" in url:
        return "prime-rl-sft" if "sft trainer" in _notes(result) else "prime-rl"
    if "liger" in _notes(result).lower() and result.framework == "zero3":
        return "zero-liger"
    if result.framework == "megatron" and any(repo in url for repo in _TE_LOSS):
        return "megatron-te-loss"
    for repo, name in _REPOSITORIES:
        if repo in url and not (name == "huggingface" and result.framework == "zero3"):
            return name
    return _FRAMEWORKS.get(result.framework or "", "fsdp2")


def _torchtitan(result: Result) -> str:
    match = _DATE.search(result.commit_or_date or "")
    date = match.group() if match else "2025-01"
    if "pytorch/ao" in result.source_url.lower():
        # torchao's document dates from its last edit. Its H100 table was made with torchtitan of
        # early 2025 (PR 1629 of January 2025 is in it), its B200 table with a later one.
        date = "2025-01" if (result.gpu or "").startswith("H100") else "2026-05"
    return next(name for until, name in _TORCHTITAN_ERAS if date < until)


# First day that a period of torchtitan does not cover (see data/stacks.toml for the commits).
_TORCHTITAN_ERAS = (
    ("2024-06-12", "torchtrain"),
    ("2024-10-22", "torchtitan-2024-06"),
    ("2025-08-20", "torchtitan-2024-10"),
    ("2026-04-27", "torchtitan-2025-08"),
    ("9999", "torchtitan"),
)
# Stacks whose repository also holds experimental programs (framework "other").
_UNLIKE = ("litgpt", "fsdp2", *(name for _, name in _TORCHTITAN_ERAS))
_REPOSITORIES = (
    ("kempnerforge", "kempner"),
    ("llm-foundry", "composer"),
    ("fms-fsdp", "fms-fsdp"),
    ("pytorch.org/blog/maximizing-training", "fms-fsdp"),
    ("litgpt", "litgpt"),
    ("lightning-thunder", "litgpt"),
    ("pytorch/torchtune", "torchtune"),
    ("modelscope/ms-swift", "huggingface"),
    ("llmq", "llmq"),
    ("maxtext", "jax"),
    ("gpu-recipes", "jax"),
    # ZeRO-1 with fp32 gradients, as Megatron's distributed optimizer.
    ("nanotron", "megatron"),
)
# Repositories whose recipes for Megatron-Core take TransformerEngine's loss.
_TE_LOSS = ("nemo", "megatron-bridge", "dgxc-benchmarking")
_FRAMEWORKS = {
    "fsdp2": "fsdp2",
    "fsdp1": "fsdp1",
    "zero3": "zero",
    "megatron": "megatron",
    "ddp": "ddp",
    "shardwise": "shardwise",
}
