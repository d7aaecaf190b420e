"""Tables of jobs: what was ordered, where it stands, and what has happened to it."""

import json
from datetime import datetime
from decimal import Decimal

from sqlalchemy import ForeignKey, Index, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from app.tables import ROW_NUMBER, Table


class Job(Table):
    """One training job.

    request: as sent, as JSON. ordered: JobOrder as JSON. host: the machine where a local job is; no
    other's worker can see it. predicted: the candidate's figures as JSON. due_at: when a worker
    looks at it next; None once all is done. lease_owner, lease_until: the worker that looks now.
    num_troubles: failed calls in a row. num_missing: times in a row that the backend did not know
    it. transitions, progress, changes: of the last Observation, as JSON. result: the trainer's
    result.json. result_id: the stored result made of it. preflight: checks as JSON.
    """

    __tablename__ = "jobs"
    __table_args__ = (Index("ix_jobs_due_at_status", "due_at", "status"),)

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    name: Mapped[str] = mapped_column(String(63), unique=True)
    kind: Mapped[str] = mapped_column(String(20))
    backend: Mapped[str] = mapped_column(String(20))
    status: Mapped[str] = mapped_column(String(20), index=True)
    recommendation_id: Mapped[str] = mapped_column(String(32))
    candidate: Mapped[int]
    resumes_id: Mapped[str | None] = mapped_column(String(32))
    idempotency_key: Mapped[str | None] = mapped_column(String(200), unique=True)
    request_hash: Mapped[str] = mapped_column(String(64))
    request: Mapped[str]
    checkpoint_uri: Mapped[str]
    host: Mapped[str | None] = mapped_column(String(200))
    ordered: Mapped[str]
    predicted: Mapped[str]
    max_usd: Mapped[Decimal | None]
    created_by: Mapped[str | None] = mapped_column(String(32), index=True)
    created_at: Mapped[datetime] = mapped_column(index=True)
    due_at: Mapped[datetime | None]
    lease_owner: Mapped[str | None] = mapped_column(String(64))
    lease_until: Mapped[datetime | None]
    num_troubles: Mapped[int]
    num_missing: Mapped[int]
    trouble: Mapped[str | None]
    stop_requested_at: Mapped[datetime | None]
    submitted_at: Mapped[datetime | None]
    started_at: Mapped[datetime | None]
    ended_at: Mapped[datetime | None]
    backend_status: Mapped[str | None]
    backend_arn: Mapped[str | None]
    training_plan_arn: Mapped[str | None]
    failure_reason: Mapped[str | None]
    remedy: Mapped[str | None]
    billable_s: Mapped[int | None]
    transitions: Mapped[str | None]
    progress: Mapped[str | None]
    changes: Mapped[str | None]
    log_tail: Mapped[str | None]
    preflight: Mapped[str | None]
    result: Mapped[str | None]
    result_id: Mapped[str | None] = mapped_column(String(200))

    @property
    def changes_list(self) -> list[str]:
        """How the run differs from what was ordered, in plain sentences."""
        found: list[str] = json.loads(self.changes or "[]")
        return found


class JobEvent(Table):
    """Something that happened to a job. key: at most one event of a job has it."""

    __tablename__ = "job_events"
    __table_args__ = (UniqueConstraint("job_id", "key"),)

    id: Mapped[int] = mapped_column(ROW_NUMBER, primary_key=True, autoincrement=True)
    job_id: Mapped[str] = mapped_column(String(32), ForeignKey("jobs.id"), index=True)
    key: Mapped[str] = mapped_column(String(200))
    kind: Mapped[str] = mapped_column(String(40))
    detail: Mapped[str]
    at: Mapped[datetime]
