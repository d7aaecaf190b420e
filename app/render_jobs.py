"""Pages of jobs: the list, one job, and the form that starts one."""

import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from fastapi import Request, Response
from sqlalchemy.orm import Session

from advisor.errors import AdvisorError
from app.access.caps import check_caps
from app.access.errors import BudgetExceeded
from app.access.roles import Actor
from app.aws.training_plans import list_plans
from app.errors import AppError, FieldError, ServiceUnavailable
from app.forms import FormField, FormValues, Parsed
from app.job_bars import memory_bar, speed_bar
from app.jobs.job_json import job_detail_json, job_json
from app.jobs.preview import preview_json
from app.jobs.schemas import JobRequest
from app.jobs.store import NewJob, find_job, list_jobs, plan_job
from app.jobs.training_service import BackendError, Check
from app.launch_form import HIDDEN, PLAN, launch_fields, parse_launch, placed
from app.plan_choices import with_plans, without_plans
from app.recommendations import stored
from app.render import page_response
from app.service import Service

_INVALID = 422
PAGE = 50
# A browser without scripts looks again after so many seconds while a job is at work.
REFRESH_S = 3


def render_jobs(request: Request, service: Service, *, status: str, offset: int) -> Response:
    """The list of jobs."""
    with service.database.reading() as session:
        total, found = list_jobs(session, status=status, limit=PAGE, offset=offset)
        rows = [job_json(job) for job in found]
    more = {"status": status} if status else {}
    context = {
        "total": total,
        "jobs": rows,
        "status": status,
        "previous": _page_at(more, max(0, offset - PAGE)) if offset else None,
        "next": _page_at(more, offset + PAGE) if offset + PAGE < total else None,
    }
    return page_response(request, "jobs.html", context)


def render_job(request: Request, service: Service, identity: str) -> Response:
    """One job; the page follows it while it is unfinished."""
    with service.database.reading() as session:
        job = job_detail_json(find_job(session, identity))
    compared = job["compared"]
    bars = [speed_bar(compared["tokens_per_s"]), memory_bar(compared["peak_bytes"])]
    context = {"job": job, "bars": bars, "refresh_s": REFRESH_S}
    return page_response(request, "job.html", context)


def render_launch(
    request: Request,
    values: FormValues,
    service: Service,
    actor: Actor,
    errors: Mapping[str, str] | None = None,
) -> Response:
    """The form; below it, once it is filled in, the checks, the money and the button."""
    has_sagemaker = "sagemaker" in service.backends
    identity = values.get("recommendation_id", [""])[0]
    with service.database.reading() as session:
        content = stored(session, identity).content
    values = {name: [text.strip() for text in texts] for name, texts in values.items()}
    fields = _shown_fields(service, content, values)
    context: dict[str, Any] = {
        "content": content,
        "candidates": candidate_choices(content),
        "candidate": values.get("candidate", ["0"])[0],
        "values": values,
        "fields": fields,
        "labels": {each.name: each.label for each in fields},
        "errors": dict(errors or {}),
        "unplaced": (),
        "preview": None,
        "query": urlencode([(name, text) for name in values for text in values[name]]),
        "hidden": {name: values[name][0] for name in values if name not in HIDDEN},
        "idempotency_key": secrets.token_hex(12),
    }
    if not errors and "kind" in values:
        parsed = parse_launch(values, has_sagemaker=has_sagemaker)
        context.update(errors=dict(parsed.errors), unplaced=parsed.unplaced)
        _add_preview(context, parsed, service, actor)
    wrong = bool(context["errors"] or context["unplaced"])
    return page_response(request, "launch.html", context, _INVALID if wrong else 200)


def launch_file(values: FormValues, service: Service, actor: Actor, name: str) -> str | None:
    """One of the files of a preview. Raises AdvisorError; None where there is no such file."""
    parsed = parse_launch(values, has_sagemaker="sagemaker" in service.backends)
    if parsed.request is None:
        return None
    files: Mapping[str, str] = preview_of(parsed.request, service, actor)["files"]
    return files.get(name)


def preview_of(wanted: JobRequest, service: Service, actor: Actor) -> dict[str, Any]:
    """What starting this job would do. Raises AdvisorError, AppError."""
    backend = service.backend(wanted.backend)
    with service.database.reading() as session:
        new = plan_job(session, wanted, service.settings, created_by=actor.key_id)
        within = _caps_check(session, actor, new)
    try:
        return preview_json(new, backend, within)
    except BackendError as error:
        raise ServiceUnavailable(f"the backend cannot be asked: {error}") from error


def _caps_check(session: Session, actor: Actor, new: NewJob) -> tuple[Check, ...]:
    """Whether the key may spend what the job may cost; nothing for who needs none."""
    if actor.key_id is None or new.request.backend == "local":
        return ()
    try:
        check_caps(session, actor, new.ordered.max_usd, datetime.now(UTC), locks=False)
    except BudgetExceeded as error:
        return (Check(name="caps of the key", verdict="fail", detail=error.detail),)
    return (Check(name="caps of the key", verdict="pass", detail="the key may spend this"),)


def _add_preview(
    context: dict[str, Any], parsed: Parsed[JobRequest], service: Service, actor: Actor
) -> None:
    if parsed.request is None:
        return
    try:
        context["preview"] = preview_of(parsed.request, service, actor)
    except AdvisorError as error:
        context["errors"] = placed([FieldError(field=error.field, detail=error.detail)])


def candidate_choices(content: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The candidates of an answer as choices: number and words."""
    return [
        (
            str(number),
            f"{label.replace('_', ' ')}: {settings['num_instances']} × "
            f"{settings['instance_type']}, {settings['precision']}, micro batch "
            f"{settings['micro_batch']}",
        )
        for number, (label, settings) in enumerate(_candidates(content))
    ]


def _candidates(content: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """The candidates of an answer by their labels: the settings of each, the best first."""
    if content["best"] is None:
        return []
    alternatives = [(each["label"], each["settings"]) for each in content["alternatives"]]
    return [("best", content["best"]["settings"]), *alternatives]


def _shown_fields(
    service: Service, content: Mapping[str, Any], values: FormValues
) -> tuple[FormField, ...]:
    """The fields of the launch form; the training plan is chosen among the account's."""
    fields = launch_fields(has_sagemaker="sagemaker" in service.backends)
    settings = _chosen_settings(content, values)
    if settings is None or service.aws is None:
        return fields
    chosen = values.get(PLAN, [""])[0]
    region = service.settings.aws_region
    return tuple(
        _plan_field(service, each, settings, chosen=chosen, region=region)
        if each.name == PLAN
        else each
        for each in fields
    )


def _chosen_settings(content: Mapping[str, Any], values: FormValues) -> Mapping[str, Any] | None:
    """The settings of the candidate that the form shows; None where the answer has none."""
    found = _candidates(content)
    text = values.get("candidate", ["0"])[0]
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 4 else 0
    return found[min(number, len(found) - 1)][1] if found else None


def _plan_field(
    service: Service, field: FormField, settings: Mapping[str, Any], *, chosen: str, region: str
) -> FormField:
    """The choice of a training plan; a field for its ARN where AWS gives no list."""
    if service.aws is None or not region:
        return without_plans(field, "SHARDWISE_AWS_REGION names no region")
    try:
        plans = list_plans(service.aws, region)
    except (AppError, BackendError) as error:
        return without_plans(field, str(error))
    now = datetime.now(UTC)
    return with_plans(field, plans, settings, chosen=chosen, region=region, now=now)


def _page_at(query: Mapping[str, str], offset: int) -> str:
    return "/jobs?" + urlencode({**query, "offset": str(offset)})
