"""The form: its fields in one table, and how their text becomes a request."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ValidationError

from advisor.catalog import Catalog
from advisor.plan import CHECKPOINTINGS, GRADIENT_SYNCS, OPTIMIZERS, PRECISIONS
from app.errors import FieldError, field_errors
from app.schemas import RecommendRequest
from app.strict_json import StrictJsonError, parse_json

FormValues = dict[str, list[str]]
Asked = TypeVar("Asked", bound=BaseModel)
Kind = Literal["text", "whole", "number", "select", "flag", "checks", "json"]

_NUMBER = re.compile(
    r"(\d[\d,_ ]*(?:\.\d+)?(?:e[+-]?\d{1,3})?)\s*([kmbt]?)", re.IGNORECASE | re.ASCII
)
_SCALES = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "t": 10**12}
_MAX_ADJUSTED = 30
# A file's content comes as model_config; without its upload only a file name is sent.
CONFIG_FILE = "config_file"
_OPEN = ("", "let the search choose")


@dataclass(frozen=True, slots=True, kw_only=True)
class FormField:
    """One input. `blank` says what an empty one means; choices are (value, words)."""

    name: str
    label: str
    kind: Kind
    blank: str = ""
    hint: str = ""
    choices: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Fields that are shown together."""

    title: str
    fields: tuple[FormField, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed(Generic[Asked]):
    """The request, or the errors by field name; `unplaced` are those of no field."""

    request: Asked | None = None
    errors: Mapping[str, str] = field(default_factory=dict)
    unplaced: tuple[str, ...] = ()


def _choices(*values: str) -> tuple[tuple[str, str], ...]:
    return (_OPEN, *((value, value) for value in values))


MAIN = (
    FormField(
        name="model_name",
        label="Model",
        kind="text",
        hint="A name such as llama-3.1-8b or Qwen/Qwen3-14B. "
        "Or give a size or a config.json under “Another model”.",
    ),
    FormField(
        name="num_tokens",
        label="Tokens to train on",
        kind="whole",
        blank="as many as the budget buys",
        hint="For example 15B, 1.5T or 2e12. Blank without a budget: 20 per parameter.",
    ),
    FormField(name="budget_usd", label="Budget in US dollars", kind="number", blank="no limit"),
)
ANOTHER_MODEL = Group(
    title="Another model: a size, or a config.json",
    fields=(
        FormField(
            name="model_size_b",
            label="Size in billions of parameters",
            kind="number",
            hint="0.1 to 72: a Llama-like shape is derived by rules that are shown.",
        ),
        FormField(
            name="model_config",
            label="config.json, pasted",
            kind="json",
            hint="Of any dense decoder, in Hugging Face’s form.",
        ),
    ),
)
RUN = Group(
    title="Training run",
    fields=(
        FormField(
            name="training",
            label="Kind of training",
            kind="select",
            choices=(("pretrain", "pre-training"), ("finetune", "fine-tuning, all weights")),
        ),
        FormField(
            name="objective",
            label="Best means",
            kind="select",
            choices=(
                ("", "cheapest; with a budget alone, most tokens"),
                ("cheapest", "cheapest"),
                ("fastest", "fastest"),
                ("most_tokens", "most tokens"),
            ),
        ),
        FormField(
            name="deadline_hours", label="Deadline in hours", kind="number", blank="no deadline"
        ),
        FormField(
            name="seq_len",
            label="Sequence length in tokens",
            kind="whole",
            blank="8,192 (4,096 to fine-tune), at most the model’s",
        ),
        FormField(
            name="global_batch_tokens",
            label="Tokens in one optimizer step",
            kind="whole",
            blank="by a published rule from the compute",
        ),
        FormField(
            name="max_oom_probability",
            label="Accepted chance of running out of memory",
            kind="number",
            blank="0.02",
        ),
        FormField(
            name="calibration_version",
            label="Calibration to repeat an answer with",
            kind="text",
            blank="the newest",
        ),
    ),
)
PINS = Group(
    title="Settings that you want fixed",
    fields=(
        FormField(
            name="precision", label="Precision", kind="select", choices=_choices(*PRECISIONS)
        ),
        FormField(
            name="activation_checkpointing",
            label="Activation checkpointing",
            kind="select",
            choices=_choices(*CHECKPOINTINGS),
        ),
        FormField(
            name="micro_batch",
            label="Sequences per GPU and forward",
            kind="whole",
            blank="let the search choose",
        ),
        FormField(
            name="optimizer", label="Optimizer", kind="select", choices=_choices(*OPTIMIZERS)
        ),
        FormField(
            name="sharding",
            label="Sharding",
            kind="select",
            choices=_choices("full", "hybrid", "none"),
        ),
        FormField(name="compile", label="Compile", kind="flag"),
        FormField(name="loss_chunking", label="Loss in chunks", kind="flag"),
        FormField(name="reshard_after_forward", label="Reshard after forward", kind="flag"),
        FormField(
            name="gradient_sync",
            label="Gradients are reduced in",
            kind="select",
            choices=(_OPEN, *((sync, f"{sync} micro step") for sync in GRADIENT_SYNCS)),
        ),
    ),
)


def hardware_group(catalog: Catalog) -> Group:
    """Where the run may be, and how it is paid for."""
    instances = tuple(
        (each.name, f"{each.name} ({each.num_gpus} × {each.gpu.name})")
        for each in catalog.instances.values()
    )
    regions = (("", "the cheapest in the United States"), *((r, r) for r in catalog.regions()))
    return Group(
        title="Hardware and price",
        fields=(
            FormField(
                name="instances",
                label="Instance types",
                kind="checks",
                hint="None ticked: all of them.",
                choices=instances,
            ),
            FormField(name="min_instances", label="Instances at least", kind="whole", blank="1"),
            FormField(name="max_instances", label="Instances at most", kind="whole", blank="64"),
            FormField(
                name="pricing",
                label="Paid by",
                kind="select",
                choices=(
                    ("training_plan", "SageMaker training plan"),
                    ("capacity_block", "EC2 capacity block"),
                    ("on_demand", "on demand"),
                    ("spot", "spot"),
                    ("custom", "my own rate, by the second"),
                ),
            ),
            FormField(
                name="usd_per_instance_hour",
                label="My own rate in US dollars per instance and hour",
                kind="number",
                blank="the published rate",
                hint="Also for a training plan or a capacity block that you were offered.",
            ),
            FormField(name="region", label="Region", kind="select", choices=regions),
        ),
    )


def groups(catalog: Catalog) -> tuple[Group, ...]:
    """All groups below the main fields."""
    return (ANOTHER_MODEL, RUN, hardware_group(catalog), PINS)


def labels(catalog: Catalog) -> dict[str, str]:
    """What the form calls each field."""
    return {name: each.label for name, each in _fields(catalog).items()}


def _fields(catalog: Catalog) -> dict[str, FormField]:
    below = (each for group in groups(catalog) for each in group.fields)
    return {each.name: each for each in (*MAIN, *below)}


def parse_form(values: Mapping[str, list[str]], catalog: Catalog) -> Parsed[RecommendRequest]:
    """The request that the text of a form stands for, or what is wrong with it, by field."""
    sent = {name: texts for name, texts in values.items() if name != CONFIG_FILE}
    return parse_fields(sent, _fields(catalog), RecommendRequest, _nested, placed)


def parse_fields(
    values: Mapping[str, list[str]],
    fields: Mapping[str, FormField],
    model: type[Asked],
    nested: Callable[[Mapping[str, Any]], dict[str, Any]],
    place: Callable[[list[FieldError]], dict[str, str]],
) -> Parsed[Asked]:
    """The request that the text of some fields stands for, or what is wrong with it, by field.

    nested: from values by field to the request's own nesting; place: from its errors to fields.
    """
    raw: dict[str, Any] = {}
    errors: dict[str, str] = {}
    for name, texts in values.items():
        given = [text.strip() for text in texts if text.strip()]
        if name not in fields:
            return Parsed(unplaced=(f"{name[:40]!r} is not a field of this form",))
        if given:
            try:
                raw[name] = _value(fields[name], given)
            except ValueError as error:
                errors[name] = str(error)
    try:
        request = model.model_validate(nested(raw))
    except ValidationError as error:
        return Parsed(errors={**place(field_errors(error.errors())), **errors})
    return Parsed(errors=errors) if errors else Parsed(request=request)


def placed(errors: list[FieldError]) -> dict[str, str]:
    """Errors of a request under the names of the form's fields; the first of each is kept."""
    found: dict[str, str] = {}
    for error in errors:
        found.setdefault(form_field(error.field), f"{_rest(error.field)}{error.detail}")
    return found


def form_field(path: str) -> str:
    """The form's field for a dotted path in the request."""
    head, *rest = path.split(".")
    if head == "model":
        names = {"size_b": "model_size_b", "config": "model_config"}
        return names.get(rest[0] if rest else "", "model_name")
    if head == "pricing" and rest:
        return "usd_per_instance_hour"
    return head


def _rest(path: str) -> str:
    """What of a path no field's name says: a key inside of a config.json."""
    return f"{path.removeprefix('model.config.')}: " if path.startswith("model.config.") else ""


def _value(item: FormField, texts: list[str]) -> Any:
    """The value of one field. Raises ValueError with a message for people."""
    if item.kind == "checks":
        return texts
    if len(texts) > 1:
        raise ValueError("is given more than once")
    text = texts[0]
    match item.kind:
        case "json":
            return _config(text)
        case "whole" | "number":
            return _number(text)
        case "flag":
            return _flag(text)
        case _:
            return text


def _config(text: str) -> Any:
    try:
        return parse_json(text)
    except StrictJsonError as error:
        raise ValueError(str(error)) from None


def _flag(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError("must be true or false")
    return text == "true"


def _number(text: str) -> int | float:
    """A number as people write it: 10,000 or 1.5T or 2e12."""
    match = _NUMBER.fullmatch(text.removeprefix("$").strip())
    if match is None:
        raise ValueError(f"must be a number above 0, such as 20000 or 1.5T, not {text[:40]!r}")
    number = Decimal(re.sub(r"[,_ ]", "", match[1])) * _SCALES[match[2].lower()]
    if number.adjusted() > _MAX_ADJUSTED:
        raise ValueError("is too large")
    return int(number) if number == number.to_integral_value() else float(number)


def _nested(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The request's own nesting: the model's three ways, and the price."""
    request = dict(raw)
    model: dict[str, Any] = {
        key: request.pop(name)
        for key, name in (
            ("name", "model_name"),
            ("size_b", "model_size_b"),
            ("config", "model_config"),
        )
        if name in request
    }
    rate = request.pop("usd_per_instance_hour", None)
    if rate is not None:
        kind = request.get("pricing", "custom")
        request["pricing"] = {"kind": kind, "usd_per_instance_hour": rate}
    return {"model": model, **request}
