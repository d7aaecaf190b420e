"""Jobs as stored: created, found, stopped and resumed. No backend is called here."""

import hashlib
import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from app.database import insert_unless_there
from app.errors import Conflict, NotFound
from app.jobs.errors import TooManyJobs
from app.jobs.events import record_event
from app.jobs.order import JobOrder
from app.jobs.orders import Ordered, ordered, request_hash
from app.jobs.schemas import JobRequest
from app.jobs.tables import Job
from app.jobs.training_service import JobStatus
from app.jobs.transitions import FINAL, UNFINISHED
from app.recommendations import stored
from app.settings import Settings

_UNFINISHED = tuple(status.value for status in UNFINISHED)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A job to be written: the request, what it comes to, and who asks."""

    identity: str
    request: JobRequest
    ordered: Ordered
    resumes_id: str | None
    created_by: str | None


def plan_job(
    session: Session,
    request: JobRequest,
    settings: Settings,
    *,
    created_by: str | None,
    resumes: Job | None = None,
) -> NewJob:
    """What a request comes to, without writing it. Raises AdvisorError and AppError."""
    identity = secrets.token_hex(16)
    content = stored(session, request.recommendation_id).content
    goes_on_from = None if resumes is None else order_of(resumes)
    return NewJob(
        identity=identity,
        request=request,
        ordered=ordered(request, content, settings, identity=identity, resumes=goes_on_from),
        resumes_id=None if resumes is None else resumes.id,
        created_by=created_by,
    )


def earlier_job(session: Session, request: JobRequest, created_by: str | None) -> Job | None:
    """The job that this very request made before. Raises Conflict when another one did."""
    key = _scoped_key(request, created_by)
    if key is None:
        return None
    job = session.scalars(select(Job).where(Job.idempotency_key == key)).one_or_none()
    if job is not None and job.request_hash != request_hash(request):
        raise Conflict("this idempotency_key was used for another job; take a new one")
    return job


def write_job(session: Session, new: NewJob, settings: Settings, now: datetime) -> Job:
    """Write a planned job as queued. Raises Conflict and TooManyJobs."""
    _check_backlog(session, settings)
    _check_checkpoints(session, new.ordered.order)
    row = _row(new, now)
    if not insert_unless_there(session, Job, row):
        # Another request with this key was written since it was looked for.
        found = earlier_job(session, new.request, new.created_by)
        if found is None:
            raise Conflict("a job of this name is there; send the request again")
        return found
    job = session.get_one(Job, new.identity)
    record_event(session, job, "queued", {}, now)
    return job


def find_job(session: Session, identity: str) -> Job:
    """The job with this id. Raises NotFound."""
    job = session.get(Job, identity) if len(identity) == 32 and identity.isalnum() else None
    if job is None:
        raise NotFound("no job has this id")
    return job


def list_jobs(
    session: Session, *, status: str, limit: int, offset: int
) -> tuple[int, Sequence[Job]]:
    """How many jobs there are (of one status), and a page of them, newest first."""
    wanted = [Job.status == status] if status else []
    total = session.scalar(select(func.count()).select_from(Job).where(*wanted)) or 0
    query = select(Job).where(*wanted).order_by(Job.created_at.desc(), Job.id)
    return total, session.scalars(query.limit(limit).offset(offset)).all()


def ask_to_stop(session: Session, identity: str, now: datetime) -> Job:
    """Note that a job is to stop; the worker does it. Raises NotFound and Conflict."""
    job = session.scalars(select(Job).where(Job.id == identity).with_for_update()).one_or_none()
    if job is None:
        raise NotFound("no job has this id")
    if JobStatus(job.status) in FINAL:
        raise Conflict(f"the job has ended: it is {job.status}")
    if job.stop_requested_at is None:
        job.stop_requested_at = now
        record_event(session, job, "stop_requested", {}, now)
    job.due_at = now
    return job


def resumable(session: Session, identity: str) -> Job:
    """The job, if another can go on from its checkpoints. Raises NotFound and Conflict."""
    job = find_job(session, identity)
    if JobStatus(job.status) not in FINAL:
        raise Conflict(f"the job is {job.status}: another can go on from it once it has ended")
    if job.kind == "probe":
        raise Conflict("a probe keeps no checkpoints: start a job of kind train instead")
    if job.status == JobStatus.COMPLETED:
        raise Conflict("the job is complete: nothing is left to train")
    return job


def request_of(job: Job) -> JobRequest:
    """The request that made a job, without its idempotency key, which is used up."""
    return JobRequest(**{**json.loads(job.request), "idempotency_key": None})


def order_of(job: Job) -> JobOrder:
    """The order of a job."""
    return JobOrder.from_json(json.loads(job.ordered))


def _scoped_key(request: JobRequest, created_by: str | None) -> str | None:
    """Two users may choose the same key; each has their own."""
    if request.idempotency_key is None:
        return None
    return hashlib.sha256(f"{created_by or ''}:{request.idempotency_key}".encode()).hexdigest()


def _check_backlog(session: Session, settings: Settings) -> None:
    query = select(func.count()).select_from(Job).where(Job.status.in_(_UNFINISHED))
    unfinished = session.scalar(query) or 0
    if unfinished >= settings.max_backlog:
        raise TooManyJobs(
            f"{unfinished} jobs are unfinished, and SHARDWISE_MAX_BACKLOG allows no more: wait, or "
            "stop some"
        )


def _check_checkpoints(session: Session, order: JobOrder) -> None:
    query = select(Job.name).where(
        Job.checkpoint_uri == order.checkpoint_uri, Job.status.in_(_UNFINISHED)
    )
    other = session.scalars(query.limit(1)).one_or_none()
    if other is not None:
        raise Conflict(
            f"job {other} is unfinished and writes its checkpoints to {order.checkpoint_uri}: two "
            "would destroy each other's; wait for it, stop it, or give another address"
        )


def _row(new: NewJob, now: datetime) -> dict[str, Any]:
    order = new.ordered.order
    return {
        "id": new.identity,
        "name": order.name,
        "kind": order.kind,
        "backend": new.request.backend,
        "status": JobStatus.QUEUED.value,
        "recommendation_id": new.request.recommendation_id,
        "candidate": new.request.candidate,
        "resumes_id": new.resumes_id,
        "idempotency_key": _scoped_key(new.request, new.created_by),
        "request_hash": request_hash(new.request),
        "request": new.request.model_dump_json(exclude_none=True),
        "checkpoint_uri": order.checkpoint_uri,
        "ordered": json.dumps(order.as_json()),
        "predicted": json.dumps(new.ordered.predicted),
        "max_usd": new.ordered.max_usd,
        "created_by": new.created_by,
        "created_at": now,
        "due_at": now,
        "num_troubles": 0,
        "num_missing": 0,
    }
