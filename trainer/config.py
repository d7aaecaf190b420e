"""Reading the flat string settings: `--key value` pairs in, a checked Config out."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from types import UnionType
from typing import Any, get_args

from trainer.errors import ConfigError
from trainer.settings import ModelSettings, PlanSettings, RunSettings

_GROUPS: tuple[tuple[str, type[Any]], ...] = (
    ("model", ModelSettings),
    ("plan", PlanSettings),
    ("run", RunSettings),
)
# Two slopes' parameters: Huang and Schlag 2024 (arXiv:2411.13010).
XIELU_PARAMETERS = 2
_CHOICES: Mapping[str, tuple[str, ...]] = {
    "activation": (
        "silu",
        "gelu",
        "gelu_tanh",
        "gelu_new",
        "gelu_pytorch_tanh",
        "relu",
        "relu2",
        "xielu",
    ),
    "norm": ("rmsnorm", "layernorm", "layernorm_no_bias", "nonparametric"),
    "positions": ("rope", "learned", "alibi", "none"),
    "norm_layout": ("pre", "post", "sandwich"),
    "parallel_block": ("none", "shared", "separate"),
    "qk_norm_kind": ("head", "each_head", "all"),
    "precision": ("bf16", "fp8", "mxfp8", "nvfp4", "fp32"),
    "activation_checkpointing": ("none", "selective", "full"),
    "gradient_sync": ("each", "last"),
    "optimizer": ("adamw", "adamw_bf16", "adamw_8bit"),
    "fp8_recipe": ("tensorwise", "rowwise", "rowwise_with_gw_hp"),
    "schedule": ("cosine", "wsd"),
    "bad_shards": ("fail", "skip"),
}
_POSITIVE = (
    *("hidden_size", "num_layers", "num_heads", "num_kv_heads", "head_dim", "ffn_size"),
    *("vocab_size", "max_position", "micro_batch", "seq_len", "accumulation_steps"),
    *("replica_degree", "loss_chunks", "learning_rate", "keep_checkpoints", "log_every"),
)
_NOT_NEGATIVE = (
    *("checkpoint_every", "shard_degree", "num_tokens", "num_steps", "warmup_steps", "probe"),
    *("weight_decay", "grad_clip", "z_loss", "checkpoint_every_s", "checkpoint_every_steps"),
    *("skip_steps", "hang_after_s", "decay_fraction", "min_learning_rate_fraction", "seed"),
    *("peak_flops_per_s", "extra_positions", "num_unrotated_layers", "activation_parameters"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Everything that a run obeys."""

    model: ModelSettings
    plan: PlanSettings
    run: RunSettings

    @property
    def tokens_per_micro_step(self) -> int:
        """Tokens per GPU per forward."""
        return self.plan.micro_batch * self.plan.seq_len

    def as_strings(self) -> dict[str, str]:
        """The settings as they would be given on the command line."""
        return {
            name: _text(getattr(part, name))
            for part in (self.model, self.plan, self.run)
            for name in (item.name for item in fields(part))
        }


def parse(arguments: Sequence[str]) -> Config:
    """`--key value` and `--key=value` pairs as a Config. Raises ConfigError with every problem."""
    return config_of(_pairs(arguments))


def config_of(strings: Mapping[str, str]) -> Config:
    """Flat string settings as a Config.

    A group (model, plan) is given whole or not at all; settings of the run have defaults.
    Raises ConfigError that lists unknown, missing and wrong settings together.
    """
    known = {item.name for _, group in _GROUPS for item in fields(group)}
    problems = [f"unknown setting {name!r}" for name in strings if name not in known]
    parts: dict[str, Any] = {}
    for name, group in _GROUPS:
        values, wrong = _read_group(group, strings, whole=name != "run")
        problems += wrong
        parts[name] = None if wrong else group(**values)
    if not problems:
        config = Config(**parts)
        problems = _contradictions(config)
    if problems:
        raise ConfigError(problems)
    return config


def help_text() -> str:
    """Every setting with its default and explanation."""
    lines = ["usage: torchrun ... -m trainer [--key value]...", ""]
    for name, group in _GROUPS:
        lines.append(f"{name}:")
        lines += [
            f"  --{item.name} (default {_text(item.default)!r})  {item.metadata['help']}"
            for item in fields(group)
        ]
        lines.append("")
    lines.append(
        "The settings of the model, and of the plan, are given all together or not at all."
    )
    return "\n".join(lines)


def _pairs(arguments: Sequence[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    problems: list[str] = []
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if not word.startswith("--"):
            problems.append(f"{word!r} is not a --key")
            continue
        name, equals, value = word[2:].partition("=")
        if not equals:
            if not rest:
                problems.append(f"--{name} has no value")
                continue
            value = rest.pop(0)
        if name in pairs:
            problems.append(f"--{name} is given twice")
        pairs[name] = value
    if problems:
        raise ConfigError(problems)
    return pairs


def _read_group(
    group: type[Any], strings: Mapping[str, str], *, whole: bool
) -> tuple[dict[str, Any], list[str]]:
    given = [item for item in fields(group) if item.name in strings]
    values: dict[str, Any] = {}
    problems: list[str] = []
    if whole and given:
        problems = [
            f"missing setting {item.name!r}"
            for item in fields(group)
            if item.name not in strings and not item.metadata["optional"]
        ]
    for item in given:
        try:
            values[item.name] = _value(item, strings[item.name].strip())
        except ValueError as error:
            problems.append(f"{item.name}: {error}")
    return values, problems


def _value(item: Field[Any], text: str) -> Any:
    kinds = get_args(item.type) if isinstance(item.type, UnionType) else (item.type,)
    if type(None) in kinds and text.lower() in ("", "none", "null"):
        return None
    kind = kinds[0]
    if kind is bool:
        return _boolean(text)
    if kind is int:
        return _integer(text)
    if kind is float:
        return float(text)
    choices = _CHOICES.get(item.name)
    if choices and text not in choices:
        raise ValueError(f"{text!r} is none of {', '.join(choices)}")
    return text


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"{text!r} is neither true nor false")
    return text.lower() == "true"


def _integer(text: str) -> int:
    number = float(text)
    if number != int(number):
        raise ValueError(f"{text!r} is not a whole number")
    return int(text) if text.lstrip("+-").isdigit() else int(number)


def _text(value: Any) -> str:
    if value is MISSING or value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def _contradictions(config: Config) -> list[str]:
    everything: list[Any] = [config.model, config.plan, config.run]
    values = {i.name: getattr(part, i.name) for part in everything for i in fields(part)}
    problems = [f"{name} must be above 0" for name in _POSITIVE if values[name] <= 0]
    problems += [f"{name} must not be below 0" for name in _NOT_NEGATIVE if values[name] < 0]
    return problems or [text for wrong, text in _rules(config) if wrong]


def _rules(config: Config) -> Iterable[tuple[bool, str]]:
    model, plan, run = config.model, config.plan, config.run
    yield (
        model.num_heads % model.num_kv_heads != 0,
        f"num_heads {model.num_heads} is not a multiple of num_kv_heads {model.num_kv_heads}",
    )
    yield (
        plan.seq_len > model.max_position and model.positions == "learned",
        f"seq_len {plan.seq_len} is above max_position {model.max_position}",
    )
    yield (
        model.activation_parameters != XIELU_PARAMETERS * (model.activation == "xielu"),
        f"activation {model.activation} has not {model.activation_parameters} parameters",
    )
    yield (
        not 0 <= (model.num_windowed_layers or 0) <= model.num_layers,
        f"num_windowed_layers {model.num_windowed_layers} is not from 0 to num_layers",
    )
    yield (
        plan.checkpoint_every > 0 and plan.activation_checkpointing != "selective",
        "checkpoint_every needs activation_checkpointing selective",
    )
    yield bool(run.num_tokens and run.num_steps), "give num_tokens or num_steps, not both"
    yield run.probe > 0 and run.data != "synthetic", "probe runs on synthetic data"
    yield (
        run.document_mask and run.end_of_text is None,
        "document_mask needs end_of_text",
    )
    yield (
        plan.optimizer == "adamw_bf16" and run.beta2 > 0.99,
        "adamw_bf16 needs beta2 at most 0.99: a bf16 average does not move in smaller steps",
    )
    yield not _is_json_object(model.rope_scaling), "rope_scaling is not a JSON object"


def _is_json_object(text: str) -> bool:
    if not text:
        return True
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False
