"""The launch form: a candidate of a stored recommendation, and where it is to run."""

from collections.abc import Mapping
from typing import Any

from app.errors import FieldError
from app.forms import FormField, Parsed, parse_fields
from app.jobs.schemas import JobRequest

HIDDEN = ("recommendation_id", "candidate", "idempotency_key")
# Its choices are the account's plans where AWS can be asked: app.plan_choices.
PLAN = "training_plan_arn"
_PAIRS = ("tags", "environment")
_LISTS = ("subnets", "security_group_ids")


def launch_fields(*, has_sagemaker: bool) -> tuple[FormField, ...]:
    """Every field that is shown, in its order; those of SageMaker only where it is enabled."""
    here = (("local", "this machine, as a trial run on what it has"),)
    backends = (("sagemaker", "Amazon SageMaker AI"), *here) if has_sagemaker else here
    main = (
        FormField(name="backend", label="Where", kind="select", choices=backends),
        FormField(
            name="kind",
            label="What",
            kind="select",
            choices=(
                ("probe", "probe: 20 measured steps, minutes instead of a lost day"),
                ("train", "train: the whole run"),
            ),
        ),
        FormField(
            name="data",
            label="Data",
            kind="text",
            blank="synthetic",
            hint="s3://BUCKET/PREFIX, fsx://fs-ID/PATH, or a folder for a run on this machine.",
        ),
        FormField(
            name="max_runtime_hours",
            label="Hours at most",
            kind="number",
            blank="by the prediction, with slack",
        ),
    )
    return (*main, *_SAGEMAKER) if has_sagemaker else main


_SAGEMAKER = (
    FormField(
        name=PLAN,
        label="Training plan",
        kind="text",
        blank="none: on demand",
        hint="Its ARN: arn:aws:sagemaker:REGION:ACCOUNT:training-plan/NAME.",
    ),
    FormField(
        name="role_arn",
        label="Role of the job",
        kind="text",
        hint="arn:aws:iam::ACCOUNT:role/NAME.",
    ),
    FormField(
        name="output_s3_uri", label="Output goes to", kind="text", hint="s3://BUCKET/PREFIX."
    ),
    FormField(
        name="checkpoint_s3_uri",
        label="Checkpoints go to",
        kind="text",
        hint="s3://BUCKET/PREFIX, in the region of the job; another job’s would be overwritten.",
    ),
    FormField(
        name="image_uri", label="Image", kind="text", blank="the AWS deep-learning container"
    ),
    FormField(name="region", label="Region", kind="text", blank="the training plan’s"),
    FormField(name="subnets", label="Subnets", kind="text", hint="Separated by blanks."),
    FormField(
        name="security_group_ids", label="Security groups", kind="text", hint="As the subnets."
    ),
    FormField(name="tags", label="Tags", kind="text", hint="NAME=VALUE, separated by blanks."),
    FormField(
        name="environment",
        label="Environment variables",
        kind="text",
        hint="NAME=VALUE, separated by blanks. No secrets.",
    ),
)


def parse_launch(values: Mapping[str, list[str]], *, has_sagemaker: bool) -> Parsed[JobRequest]:
    """The request that the text of a form stands for, or what is wrong with it, by field."""
    shown = {each.name: each for each in launch_fields(has_sagemaker=has_sagemaker)}
    hidden = {
        name: FormField(name=name, label=name, kind="whole" if name == "candidate" else "text")
        for name in HIDDEN
    }
    return parse_fields(values, {**hidden, **shown}, JobRequest, _nested, placed)


def placed(errors: list[FieldError]) -> dict[str, str]:
    """Errors of a request under the names of the form's fields; the first of each is kept."""
    found: dict[str, str] = {}
    for error in errors:
        head, *rest = error.field.split(".")
        name = rest[0] if head == "vpc" and rest else "subnets" if head == "vpc" else head
        words = ": ".join((*rest[-1:], error.detail)) if head in _PAIRS else error.detail
        found.setdefault(name, words)
    return found


def _nested(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The request's own nesting: the network, tags and variables."""
    request = dict(raw)
    vpc = {name: request.pop(name).split() for name in _LISTS if name in request}
    pairs = {name: _pairs(request.pop(name)) for name in _PAIRS if name in request}
    return {**request, **pairs, **({"vpc": vpc} if vpc else {})}


def _pairs(text: str) -> dict[str, str]:
    pairs = (word.partition("=") for word in text.split())
    return {name: value for name, _, value in pairs}
