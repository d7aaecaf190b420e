"""Jobs over HTTP: previewed, started, listed, followed, stopped, resumed."""

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import anyio
from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import JSONResponse, RedirectResponse, Response, StreamingResponse

from app.access import audit
from app.access.guard import CurrentActor
from app.errors import wants_html
from app.job_starts import start_job
from app.jobs.events import event_json, events_after
from app.jobs.job_json import job_detail_json, job_json
from app.jobs.schemas import JobRequest
from app.jobs.store import ask_to_stop, find_job, list_jobs, request_of, resumable
from app.jobs.training_service import JobStatus
from app.jobs.transitions import FINAL
from app.render_jobs import preview_of, render_job, render_jobs
from app.routes.strict import StrictJsonRoute
from app.service import CurrentService, ReadSession, Service, WriteSession

# How often a stream of events looks for new ones, and how long it lives without being asked again.
STREAM_S = 1.0
STREAM_FOR_S = 3600.0
Status = Literal[
    "", "queued", "submitting", "submitted", "running", "stopping", "completed", "failed", "stopped"
]
router = APIRouter(route_class=StrictJsonRoute)


@router.post("/jobs", status_code=202, response_class=Response)
def start(
    request: Request,
    wanted: JobRequest,
    service: CurrentService,
    session: WriteSession,
    actor: CurrentActor,
) -> Response:
    """Start a candidate of a stored recommendation as a training job."""
    service.backend(wanted.backend)
    job = start_job(session, wanted, service.settings, actor, datetime.now(UTC))
    service.worker.wake()
    return _accepted(request, job_json(job))


@router.post("/jobs/preview")
def preview(wanted: JobRequest, service: CurrentService, actor: CurrentActor) -> dict[str, Any]:
    """What POST /jobs would do: checks with their verdicts, money, and files to launch oneself."""
    return preview_of(wanted, service, actor)


@router.get("/jobs")
def jobs(
    request: Request,
    service: CurrentService,
    session: ReadSession,
    status: Status = "",
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
) -> Any:
    """Jobs, newest first."""
    if wants_html(request):
        return render_jobs(request, service, status=status, offset=offset)
    total, found = list_jobs(session, status=status, limit=limit, offset=offset)
    rows = [job_json(job) for job in found]
    return {"total": total, "limit": limit, "offset": offset, "jobs": rows}


@router.get("/jobs/{identity}")
def job(request: Request, identity: str, service: CurrentService, session: ReadSession) -> Any:
    """One job with its order, progress, checks, log and result."""
    if wants_html(request):
        return render_job(request, service, identity)
    return job_detail_json(find_job(session, identity))


@router.post("/jobs/{identity}/stop", status_code=202, response_class=Response)
def stop(
    request: Request,
    identity: str,
    service: CurrentService,
    session: WriteSession,
    actor: CurrentActor,
) -> Response:
    """Let a job save and end."""
    job = ask_to_stop(session, identity, datetime.now(UTC))
    audit.record(session, actor, "job.stop", job.name)
    service.worker.wake()
    return _accepted(request, job_json(job))


@router.post("/jobs/{identity}/resume", status_code=202, response_class=Response)
def resume(
    request: Request,
    identity: str,
    service: CurrentService,
    session: WriteSession,
    actor: CurrentActor,
) -> Response:
    """A new job that goes on from the last checkpoint of one that has ended."""
    before = resumable(session, identity)
    wanted = request_of(before)
    job = start_job(session, wanted, service.settings, actor, datetime.now(UTC), resumes=before)
    service.worker.wake()
    return _accepted(request, job_json(job))


@router.get("/jobs/{identity}/events", response_class=StreamingResponse)
def events(
    identity: str,
    service: CurrentService,
    session: ReadSession,
    last_event_id: Annotated[str, Header(max_length=20)] = "0",
) -> StreamingResponse:
    """Server-sent events of a job: those that were, then new ones, until its end."""
    find_job(session, identity)
    after = int(last_event_id) if last_event_id.isascii() and last_event_id.isdigit() else 0
    return StreamingResponse(
        _stream(service, identity, after),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store"},
    )


async def _stream(service: Service, identity: str, after: int) -> AsyncIterator[str]:
    last, seen = after, ""
    for _ in range(int(STREAM_FOR_S / STREAM_S)):
        rows, now, has_ended = await anyio.to_thread.run_sync(_news, service, identity, last)
        for row in rows:
            last = row["id"]
            yield f"id: {last}\nevent: {row['kind']}\ndata: {json.dumps(row)}\n\n"
        if now != seen:
            seen = now
            yield f"event: progress\ndata: {now}\n\n"
        if has_ended and not rows:
            return
        await anyio.sleep(STREAM_S)


def _news(service: Service, identity: str, last: int) -> tuple[list[dict[str, Any]], str, bool]:
    """Events after one, the progress now, and whether the job has ended."""
    with service.database.reading() as session:
        rows = [event_json(each) for each in events_after(session, identity, last)]
        job = find_job(session, identity)
        now = json.dumps({"status": job.status, "progress": json.loads(job.progress or "null")})
        return rows, now, JobStatus(job.status) in FINAL


def _accepted(request: Request, content: dict[str, Any]) -> Response:
    if wants_html(request):
        return RedirectResponse(f"/jobs/{content['id']}", status_code=303)
    return JSONResponse(content, status_code=202, headers={"Location": f"/jobs/{content['id']}"})
