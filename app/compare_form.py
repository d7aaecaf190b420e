"""The comparison's form: today's cluster in fields, and how their text becomes a request."""

from collections.abc import Mapping
from typing import Any

from advisor.catalog import Catalog
from advisor.plan import CHECKPOINTINGS, OPTIMIZERS, PRECISIONS
from app.errors import FieldError
from app.forms import FormField, Parsed, parse_fields
from app.what_if_schemas import CompareRequest

_CURRENT = (
    *("instance_type", "num_instances", "micro_batch", "activation_checkpointing"),
    "measured_tokens_per_s",
)
_SETTINGS = ("precision", "optimizer", "accumulation_steps", "loss_chunks", "compile")
_PRICINGS = (
    ("training_plan", "SageMaker training plan"),
    ("capacity_block", "EC2 capacity block"),
    ("on_demand", "on demand"),
    ("spot", "spot"),
)


def compare_fields(catalog: Catalog) -> tuple[FormField, ...]:
    """Every field of the form, in its order."""
    types = tuple((name, name) for name in catalog.instances)
    return (
        FormField(
            name="model_name", label="Model", kind="text", hint="A name such as llama-3.1-8b."
        ),
        FormField(name="instance_type", label="Instance type", kind="select", choices=types),
        FormField(name="num_instances", label="Instances", kind="whole", blank="1"),
        FormField(
            name="micro_batch", label="Micro batch", kind="whole", hint="Sequences on each GPU."
        ),
        FormField(
            name="activation_checkpointing",
            label="Activation checkpointing",
            kind="select",
            choices=tuple((name, name) for name in CHECKPOINTINGS),
        ),
        _select("precision", "Precision", PRECISIONS),
        FormField(name="seq_len", label="Tokens in a sequence", kind="whole", blank="8,192"),
        FormField(name="accumulation_steps", label="Accumulation steps", kind="whole", blank="1"),
        _select("optimizer", "Optimizer", OPTIMIZERS),
        FormField(name="loss_chunks", label="Slices of the loss", kind="whole", blank="1"),
        FormField(
            name="compile",
            label="torch.compile",
            kind="select",
            choices=(("true", "yes"), ("false", "no")),
        ),
        FormField(
            name="measured_tokens_per_s",
            label="Measured tokens per second",
            kind="number",
            blank="not measured",
            hint="Of all GPUs together. It takes the place of the prediction.",
        ),
        FormField(
            name="num_tokens", label="Tokens to train on", kind="whole", blank="20 per parameter"
        ),
        FormField(name="pricing", label="Paid by", kind="select", choices=_PRICINGS),
    )


def parse_comparison(values: Mapping[str, list[str]], catalog: Catalog) -> Parsed[CompareRequest]:
    """The request that the text of a form stands for, or what is wrong with it, by field."""
    fields = {each.name: each for each in compare_fields(catalog)}
    return parse_fields(values, fields, CompareRequest, _nested, placed)


def placed(errors: list[FieldError]) -> dict[str, str]:
    """Errors of a request under the names of the form's fields; the first of each is kept."""
    found: dict[str, str] = {}
    for error in errors:
        head, *rest = error.field.split(".")
        names = {"model": "model_name", "current": rest[-1] if rest else "instance_type"}
        found.setdefault(names.get(head, head), error.detail)
    return found


def _select(name: str, label: str, choices: tuple[str, ...]) -> FormField:
    return FormField(
        name=name, label=label, kind="select", choices=tuple((each, each) for each in choices)
    )


def _nested(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The request's own nesting: the model, today's cluster, and its settings."""
    request = dict(raw)
    settings = {name: request.pop(name) for name in _SETTINGS if name in request}
    if "compile" in settings:
        settings["compile"] = settings["compile"] == "true"
    current = {name: request.pop(name) for name in _CURRENT if name in request}
    name = request.pop("model_name", None)
    model = {} if name is None else {"name": name}
    return {"model": model, "current": {**current, "settings": settings}, **request}
