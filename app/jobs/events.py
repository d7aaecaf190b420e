"""Events: what has happened to a job, each once, and what of it is told to people."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.database import insert_unless_there
from app.jobs.tables import Job, JobEvent

MAX_EVENTS = 500


def record_event(
    session: Session,
    job: Job,
    kind: str,
    detail: Mapping[str, Any],
    now: datetime,
    *,
    key: str | None = None,
) -> bool:
    """Write an event; False when one with this key (the kind, unless given) was written before."""
    row = {
        "job_id": job.id,
        "key": key or kind,
        "kind": kind,
        "detail": json.dumps(detail),
        "at": now,
    }
    return insert_unless_there(session, JobEvent, row)


def events_after(session: Session, job_id: str, last_id: int) -> Sequence[JobEvent]:
    """Events of a job that came after one, oldest first."""
    query = select(JobEvent).where(JobEvent.job_id == job_id, JobEvent.id > last_id)
    return session.scalars(query.order_by(JobEvent.id).limit(MAX_EVENTS)).all()


def event_json(event: JobEvent) -> dict[str, Any]:
    """An event as plain values."""
    return {
        "id": event.id,
        "kind": event.kind,
        "at": event.at.isoformat(),
        "detail": json.loads(event.detail),
    }
