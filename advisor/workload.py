"""Workload: what is to be trained. Constraints: what it may cost and run on. Defaults are rules."""

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from advisor.errors import InvalidField
from advisor.model import ModelShape
from advisor.plan import Checkpointing, GradientSync, Optimizer, Precision

Training = Literal["pretrain", "finetune"]
Objective = Literal["cheapest", "fastest", "most_tokens"]
PricingKind = Literal["training_plan", "capacity_block", "on_demand", "spot", "custom"]
Sharding = Literal["full", "hybrid", "none"]

MAX_TOKENS = 10**15
MAX_SEQ_LEN = 2**22
MAX_GLOBAL_BATCH_TOKENS = 2**30
MAX_USD = 10**10
MAX_HOURS = 24 * 182 * 4
MAX_INSTANCES = 64

TOKENS_PER_PARAMETER = 20
FINETUNE_TOKENS = 100_000_000
DEFAULT_SEQ_LEN: dict[Training, int] = {"pretrain": 8192, "finetune": 4096}
FINETUNE_BATCH_TOKENS = 2**18
MIN_BATCH_TOKENS = 2**18
MAX_BATCH_TOKENS = 2**24


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What is to be trained.

    num_tokens: tokens to train on; None means "as many as the budget buys".
    global_batch_tokens: tokens per optimizer step over all GPUs (a target; the plan's own is near).
    assumptions: the defaults that were taken, in words, with the rule and its reference.
    """

    shape: ModelShape
    seq_len: int
    num_tokens: int | None
    global_batch_tokens: int
    training: Training
    assumptions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pins:
    """Settings that the user has fixed. None leaves the choice to the search."""

    precision: Precision | None = None
    activation_checkpointing: Checkpointing | None = None
    micro_batch: int | None = None
    optimizer: Optimizer | None = None
    sharding: Sharding | None = None
    compile: bool | None = None
    loss_chunking: bool | None = None
    reshard_after_forward: bool | None = None
    gradient_sync: GradientSync | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraints:
    """What the run may cost and where it may run.

    instances: canonical instance type names; empty means every one in the catalogue.
    usd_per_instance_hour: the user's own price, with pricing "custom".
    region: None means the catalogue's default region for each instance type.
    max_oom_probability: plans above this probability of running out of memory are not offered.
    """

    objective: Objective
    budget_usd: Decimal | None = None
    deadline_hours: float | None = None
    instances: tuple[str, ...] = ()
    min_instances: int = 1
    max_instances: int = MAX_INSTANCES
    pricing: PricingKind = "training_plan"
    usd_per_instance_hour: Decimal | None = None
    region: str | None = None
    max_oom_probability: float = 0.02
    pins: Pins = Pins()


def bounded(field: str, value: float, low: float, high: float) -> None:
    """Raise InvalidField unless low <= value <= high (NaN fails)."""
    if not low <= value <= high:
        raise InvalidField(field, f"must be between {low:g} and {high:g}, got {value:g}")


def default_objective(*, num_tokens: int | None, budget_usd: Decimal | None) -> Objective:
    """A budget alone asks for the most tokens that it buys; anything else for the cheapest run."""
    return "most_tokens" if budget_usd is not None and num_tokens is None else "cheapest"


def default_num_tokens(num_parameters: int, training: Training) -> tuple[int, str]:
    """Tokens to train on when the user names none, and the rule in words.

    Pre-training: 20 tokens per parameter, the compute-optimal ratio of Hoffmann et al. 2022
    (arXiv:2203.15556), table 3 rounded.
    """
    if training == "pretrain":
        num = TOKENS_PER_PARAMETER * num_parameters
        return num, (
            f"num_tokens = {TOKENS_PER_PARAMETER} × {num_parameters:,} parameters "
            "(compute-optimal ratio, Hoffmann et al. 2022, arXiv:2203.15556)"
        )
    return FINETUNE_TOKENS, f"num_tokens = {FINETUNE_TOKENS:,} (our convention for a fine-tune)"


def default_global_batch_tokens(
    num_parameters: int, num_tokens: int, training: Training
) -> tuple[int, str]:
    """Tokens per optimizer step when the user names none, and the rule in words.

    Pre-training: 0.292 · C^0.3271 tokens with C = 6 · parameters · tokens FLOPs, the fit of
    DeepSeek LLM (Bi et al. 2024, arXiv:2401.02954, equation 1), rounded to a power of two and kept
    between 2^18 and 2^24.
    """
    if training == "finetune":
        return FINETUNE_BATCH_TOKENS, (
            f"global_batch_tokens = {FINETUNE_BATCH_TOKENS:,} (our convention for a fine-tune)"
        )
    compute_flops = 6.0 * num_parameters * num_tokens
    ideal = 0.2920 * compute_flops**0.3271
    rounded = 2 ** round(math.log2(ideal))
    batch = min(max(rounded, MIN_BATCH_TOKENS), MAX_BATCH_TOKENS)
    return batch, (
        f"global_batch_tokens = {batch:,} (0.292·C^0.3271 with C = 6·parameters·tokens, "
        "Bi et al. 2024, arXiv:2401.02954, to a power of two within 2^18…2^24)"
    )


def default_seq_len(shape: ModelShape, training: Training) -> tuple[int, str]:
    """Sequence length when the user names none: 8,192 (4,096 to fine-tune), at most the model's."""
    wanted = DEFAULT_SEQ_LEN[training]
    length = min(wanted, shape.max_position)
    purpose = "to pretrain" if training == "pretrain" else "to fine-tune"
    if length < wanted:
        return length, (
            f"seq_len = {length:,} (our convention: {wanted:,} {purpose}, "
            f"at most the model's {shape.max_position:,})"
        )
    return length, f"seq_len = {length:,} (our convention: {wanted:,} {purpose})"


def build_workload(
    shape: ModelShape,
    *,
    num_tokens: int | None,
    seq_len: int | None,
    global_batch_tokens: int | None,
    training: Training,
    open_ended: bool,
) -> Workload:
    """A workload with the user's figures, and stated rules where there are none.

    open_ended: leave num_tokens open when it is not given (the budget decides).
    Raises InvalidField for figures out of bounds or longer than the model's positions.
    """
    seq_len, assumptions = _checked_seq_len(shape, seq_len, training)
    rule_tokens, rule = default_num_tokens(shape.num_parameters, training)
    if num_tokens is None and not open_ended:
        num_tokens = rule_tokens
        assumptions.append(rule)
    if num_tokens is not None:
        bounded("num_tokens", num_tokens, 1, MAX_TOKENS)
    if global_batch_tokens is None:
        global_batch_tokens, rule = default_global_batch_tokens(
            shape.num_parameters, num_tokens or rule_tokens, training
        )
        global_batch_tokens = max(global_batch_tokens, seq_len)
        assumptions.append(rule)
    bounded("global_batch_tokens", global_batch_tokens, 1, MAX_GLOBAL_BATCH_TOKENS)
    if global_batch_tokens < seq_len:
        raise InvalidField(
            "global_batch_tokens",
            f"{global_batch_tokens:,} is less than one sequence of {seq_len:,} tokens; "
            "raise it or shorten seq_len",
        )
    return Workload(
        shape=shape,
        seq_len=seq_len,
        num_tokens=num_tokens,
        global_batch_tokens=global_batch_tokens,
        training=training,
        assumptions=tuple(assumptions),
    )


def _checked_seq_len(
    shape: ModelShape, seq_len: int | None, training: Training
) -> tuple[int, list[str]]:
    """The sequence length asked for, or the rule's, and what was assumed for it."""
    assumptions: list[str] = []
    if seq_len is None:
        seq_len, rule = default_seq_len(shape, training)
        assumptions.append(rule)
    bounded("seq_len", seq_len, 1, MAX_SEQ_LEN)
    if shape.positions == "learned" and seq_len > shape.max_position:
        raise InvalidField(
            "seq_len",
            f"{seq_len:,} is more than the {shape.max_position:,} learned positions of "
            f"{shape.name}; use at most {shape.max_position:,}",
        )
    if seq_len > shape.max_position:
        assumptions.append(
            f"seq_len {seq_len:,} is beyond the {shape.max_position:,} positions that "
            f"{shape.name} was published with; rotary positions allow it, quality is yours to check"
        )
    return seq_len, assumptions
