"""From a request and a stored recommendation to a job's order: only plans that were checked run."""

import hashlib
import math
import re
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from advisor.catalog import load_catalog
from advisor.errors import InvalidField
from advisor.hyperparameters import hyperparameters
from advisor.model import ModelShape
from advisor.plan import Plan, plan_from
from app.jobs.order import JobOrder
from app.jobs.schemas import (
    FSX_ADDRESS,
    LOCAL_ENVIRONMENT,
    MAX_RUNTIME_HOURS,
    S3_ADDRESS,
    JobRequest,
)
from app.settings import Settings

PROBE_STEPS = 20
# Starting instances, loading the image and compiling come before the first step of a probe.
PROBE_LIMIT_S = 2 * 3600
# Beyond the slowest run of the 90 % interval: start, checkpoints, and what is not foreseen.
RUNTIME_SLACK, STARTUP_S = 1.25, 3600
LOCAL_LIMIT_S = 24 * 3600
NAME_CHARS, ID_CHARS = 63, 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordered:
    """An order with the figures that it will be compared with.

    predicted: of the candidate, as JSON. max_usd: what the job can cost at most; None where the
    price is not known.
    """

    order: JobOrder
    predicted: dict[str, Any]
    max_usd: Decimal | None


def ordered(
    request: JobRequest,
    content: dict[str, Any],
    settings: Settings,
    *,
    identity: str,
    resumes: JobOrder | None = None,
) -> Ordered:
    """The order of a candidate of a stored answer. Raises InvalidField.

    content: the answer. identity: the job's id. resumes: the order of the job that it goes on from.
    """
    model = content["model"]
    name = _name(model["name"], identity)
    request = _with_defaults(request, settings, name)
    _check_backend(request)
    candidate = _candidate(content, request.candidate)
    plan = plan_from(candidate["settings"])
    predicted = _predicted(content, candidate)
    limit_s = _max_runtime_s(request, predicted)
    region = _region(request, settings)
    folder = str(Path(settings.jobs_dir).resolve() / name)
    has_prediction = request.kind == "train"
    order = JobOrder(
        name=name,
        kind=request.kind,
        hyperparameters=_hyperparameters(request.kind, model, plan, candidate["num_tokens"]),
        num_parameters=model["num_parameters"],
        instance_type=plan.instance_type,
        num_instances=plan.num_instances,
        gpus_per_instance=plan.gpus_per_instance,
        training_plan_arn=request.training_plan_arn,
        role_arn=request.role_arn,
        image_uri=request.image_uri,
        data_uri=request.data,
        output_uri=request.output_s3_uri or folder,
        checkpoint_uri=_checkpoint_uri(request, folder, resumes),
        max_runtime_s=limit_s,
        predicted_s=predicted["train_s"] if has_prediction else None,
        predicted_interval_s=predicted["interval_train_s"] if has_prediction else None,
        allow_on_demand=settings.allow_on_demand,
        region=region,
        subnets=tuple(request.vpc.subnets) if request.vpc else (),
        security_group_ids=tuple(request.vpc.security_group_ids) if request.vpc else (),
        environment=request.environment,
        tags={**request.tags, "shardwise:job": name},
        resumes=None if resumes is None else resumes.name,
    )
    return Ordered(order=order, predicted=predicted, max_usd=_max_usd(request, predicted, limit_s))


def _with_defaults(request: JobRequest, settings: Settings, name: str) -> JobRequest:
    """A SageMaker job's role and addresses, where it names none and the service has some."""
    if request.backend == "local":
        return request
    found = {"role_arn": settings.job_role_arn}
    if settings.job_s3_uri:
        found["output_s3_uri"] = f"{settings.job_s3_uri}/output"
        found["checkpoint_s3_uri"] = f"{settings.job_s3_uri}/checkpoints/{name}"
    missing = {key: each for key, each in found.items() if each and getattr(request, key) is None}
    return request.model_copy(update=missing)


def _hyperparameters(
    kind: str, model: dict[str, Any], plan: Plan, num_tokens: int
) -> dict[str, str]:
    shape = ModelShape(name=model["name"], family=model["family"], **model["shape"])
    found = hyperparameters(shape, plan, num_tokens=num_tokens)
    if kind == "probe":
        found["probe"] = str(PROBE_STEPS)
    return found


def request_hash(request: JobRequest) -> str:
    """What two requests with one idempotency key must have in common."""
    return hashlib.sha256(request.model_dump_json().encode()).hexdigest()


def _check_backend(request: JobRequest) -> None:
    """Raise InvalidField where a field is missing for the backend, or is of the other one."""
    if request.backend == "local":
        _check_local(request)
    else:
        _check_sagemaker(request)


def _check_local(request: JobRequest) -> None:
    names = ("training_plan_arn", "role_arn", "image_uri", "output_s3_uri", "checkpoint_s3_uri")
    for name in (*names, "region", "vpc", "tags"):
        if getattr(request, name):
            raise InvalidField(name, 'is for backend "sagemaker" only; leave it out')
    if request.data != "synthetic" and not request.data.startswith("/"):
        raise InvalidField("data", 'must be "synthetic" or the whole path of a folder, from /')
    for name in request.environment:
        if not name.startswith(LOCAL_ENVIRONMENT):
            allowed = ", ".join(LOCAL_ENVIRONMENT)
            raise InvalidField(
                f"environment.{name}", f"jobs on this machine may set {allowed} only"
            )


def _check_sagemaker(request: JobRequest) -> None:
    for name in ("role_arn", "output_s3_uri", "checkpoint_s3_uri"):
        if getattr(request, name) is None:
            raise InvalidField(name, 'is required for backend "sagemaker"')
    is_fsx = bool(FSX_ADDRESS.fullmatch(request.data))
    if request.data != "synthetic" and not is_fsx and not S3_ADDRESS.fullmatch(request.data):
        raise InvalidField(
            "data",
            'must be "synthetic", s3://BUCKET/PREFIX or fsx://fs-0123456789abcdef0/PATH',
        )
    if is_fsx and request.vpc is None:
        raise InvalidField("vpc", "is required: FSx is reached from its own network only")


def _candidate(content: dict[str, Any], number: int) -> dict[str, Any]:
    if content["best"] is None:
        raise InvalidField(
            "recommendation_id", "nothing fits in this recommendation, so there is nothing to run"
        )
    candidates: list[dict[str, Any]] = [content["best"], *content["alternatives"]]
    if number >= len(candidates):
        raise InvalidField(
            "candidate",
            f"the recommendation has candidates 0 (the best) to {len(candidates) - 1}",
        )
    return candidates[number]


def _predicted(content: dict[str, Any], candidate: dict[str, Any]) -> dict[str, Any]:
    memory, speed, cost = candidate["memory"], candidate["throughput"], candidate["cost"]
    tokens = candidate["num_tokens"]
    slow, fast = speed["interval_tokens_per_s"]
    return {
        "model_name": content["model"]["name"],
        "gpu": load_catalog().instance(candidate["settings"]["instance_type"]).gpu.name,
        "settings": candidate["settings"],
        "num_tokens": tokens,
        "num_steps": candidate["num_steps"],
        "peak_bytes": memory["peak_bytes"],
        "interval_bytes": memory["interval_bytes"],
        "capacity_bytes": memory["capacity_bytes"],
        "tokens_per_s": speed["tokens_per_s"],
        "interval_tokens_per_s": [slow, fast],
        "train_s": tokens / speed["tokens_per_s"],
        "interval_train_s": (tokens / fast, tokens / slow),
        "hours": cost["hours"],
        "total_usd": cost["total_usd"],
        "usd_per_instance_hour": cost["usd_per_instance_hour"],
        "price_source": cost["price_source"],
    }


def _name(model_name: str, identity: str) -> str:
    """fsdp-MODEL-ID: what SageMaker allows, and always the same for one job."""
    slug = re.sub(r"[^a-z0-9]+", "-", model_name.lower()).strip("-") or "model"
    room = NAME_CHARS - len("fsdp--") - ID_CHARS
    return f"fsdp-{slug[:room].strip('-')}-{identity[:ID_CHARS]}"


def _max_runtime_s(request: JobRequest, predicted: dict[str, Any]) -> int:
    if request.max_runtime_hours is not None:
        return max(60, math.ceil(request.max_runtime_hours * 3600))
    if request.kind == "probe":
        return PROBE_LIMIT_S
    if request.backend == "local":
        return LOCAL_LIMIT_S
    slowest_s: float = predicted["interval_train_s"][1] * RUNTIME_SLACK + STARTUP_S
    return min(math.ceil(slowest_s), MAX_RUNTIME_HOURS * 3600)


def _region(request: JobRequest, settings: Settings) -> str | None:
    if request.backend == "local":
        return None
    of_plan = request.training_plan_arn.split(":")[3] if request.training_plan_arn else None
    found = request.region or of_plan or settings.aws_region
    if not found:
        raise InvalidField("region", "is required, or set SHARDWISE_AWS_REGION")
    return found


def _checkpoint_uri(request: JobRequest, folder: str, resumes: JobOrder | None) -> str:
    if resumes is not None:
        return resumes.checkpoint_uri
    if request.checkpoint_s3_uri is not None:
        return request.checkpoint_s3_uri.rstrip("/")
    return f"{folder}/state"


def _max_usd(request: JobRequest, predicted: dict[str, Any], limit_s: int) -> Decimal | None:
    if request.backend == "local":
        return Decimal(0)
    rate = predicted["usd_per_instance_hour"]
    if rate is None:
        return None
    instance_hours = Decimal(predicted["settings"]["num_instances"] * limit_s) / 3600
    return Decimal(str(rate)) * instance_hours
