"""Advancing one job by one step: what its backend says, and what follows from it.

No transaction is open while a backend is called. Each step can be repeated after a crash at any
line: `submitting` is written before the call, and after a crash the backend is asked what it knows.
"""

import json
import logging
import socket
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy.orm import Session

from advisor.result import Result
from app.benchmarks import add_results
from app.database import Database, database_now
from app.errors import Conflict
from app.jobs.events import record_event
from app.jobs.failures import Diagnosis, diagnose
from app.jobs.lease import give_back, held_job
from app.jobs.measured import surprises
from app.jobs.order import JobOrder
from app.jobs.pace import after_trouble_s, next_look_s
from app.jobs.results import out_of_memory_result, result_of
from app.jobs.store import order_of
from app.jobs.tables import Job
from app.jobs.training_service import (
    BackendError,
    Check,
    JobNotFound,
    JobStatus,
    Observation,
    Refused,
    TrainingService,
)
from app.jobs.transitions import FINAL, may_follow
from app.notices.outbox import announce

LOG_LINES = 200
# A backend that has listed a job may for a moment not know it (reads that lag behind writes).
MAX_MISSING = 3
MAX_TEXT = 2000
_logger = logging.getLogger(__name__)


class LeaseLost(Exception):
    """Another worker holds the job by now: what this one found out is dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _End:
    """All that is read of an ended job before the transaction that records its end."""

    status: JobStatus
    diagnosis: Diagnosis | None = None
    document: Mapping[str, Any] | None = None
    log_tail: tuple[str, ...] = ()


class Advancer:
    """Takes one step of one job that this worker holds."""

    def __init__(
        self,
        database: Database,
        services: Mapping[str, TrainingService],
        owner: str,
        *,
        clock: Callable[[Session], datetime] = database_now,
    ) -> None:
        """services: by the name of the backend. owner: this worker, as in the lease."""
        self._database = database
        self._services = services
        self._owner = owner
        self._clock = clock

    def advance(self, identity: str) -> bool:
        """One step; whether results were stored. What goes wrong is written to the job."""
        try:
            return self._step(identity)
        except LeaseLost:
            _logger.warning("lease lost", extra={"job": identity})
        except JobNotFound:
            self._missing(identity)
        except Refused as error:
            # Of a call about a job that runs: asking again may help, as rights can be mended.
            self._trouble(identity, str(error))
        except BackendError as error:
            self._trouble(identity, str(error) or type(error).__name__)
        return False

    def _step(self, identity: str) -> bool:
        job, order = self._read(identity)
        service = self._services[job.backend]
        status = JobStatus(job.status)
        if status is JobStatus.QUEUED:
            if job.stop_requested_at is not None:
                return self._finish(identity, _stopped_early())
            self._begin(identity)
            return self._submit(identity, order, service)
        if status is JobStatus.SUBMITTING:
            return self._reconcile(identity, job, order, service)
        if job.stop_requested_at is not None and status is not JobStatus.STOPPING:
            service.stop(order)
            self._stopping(identity)
        return self._observe(identity, order, service)

    def _read(self, identity: str) -> tuple[Job, JobOrder]:
        with self._database.reading() as session:
            job = session.get_one(Job, identity)
            if job.lease_owner != self._owner:
                raise LeaseLost
            session.expunge(job)
            return job, order_of(job)

    def _begin(self, identity: str) -> None:
        """Write that the backend is about to be called."""
        with self._database.writing() as session:
            job = self._held(session, identity)
            self._set(session, job, JobStatus.SUBMITTING, {})
            job.host = socket.gethostname() if job.backend == "local" else None

    def _reconcile(
        self, identity: str, job: Job, order: JobOrder, service: TrainingService
    ) -> bool:
        """After a crash or a lost answer: has the backend the job or not?"""
        try:
            observation = service.observe(order)
        except JobNotFound:
            if job.stop_requested_at is not None:
                return self._finish(identity, _stopped_early())
            return self._submit(identity, order, service)
        return self._apply(identity, order, service, observation)

    def _submit(self, identity: str, order: JobOrder, service: TrainingService) -> bool:
        checks = service.preflight(order)
        failed = [check for check in checks if check.verdict == "fail"]
        if failed:
            return self._finish(identity, _refused_by(failed), checks=checks)
        try:
            service.submit(order)
        except Refused as error:
            diagnosis = replace(diagnose(str(error), ()), is_out_of_memory=False)
            return self._finish(
                identity, _End(status=JobStatus.FAILED, diagnosis=diagnosis), checks=checks
            )
        with self._database.writing() as session:
            job = self._held(session, identity)
            job.preflight = _json([asdict(check) for check in checks])
            self._submitted(session, job)
        return self._observe(identity, order, service)

    def _observe(self, identity: str, order: JobOrder, service: TrainingService) -> bool:
        return self._apply(identity, order, service, service.observe(order))

    def _apply(
        self, identity: str, order: JobOrder, service: TrainingService, seen: Observation
    ) -> bool:
        if seen.status in FINAL:
            return self._finish(identity, _end_of(order, service, seen), seen=seen)
        log = service.log_tail(order, num_lines=LOG_LINES)
        with self._database.writing() as session:
            job = self._held(session, identity)
            now = self._clock(session)
            if JobStatus(job.status) is JobStatus.SUBMITTING:
                self._submitted(session, job)
            self._note(session, job, seen, now)
            job.log_tail = "\n".join(log)[-64_000:]
            if seen.status is not JobStatus(job.status):
                self._set(session, job, seen.status, {"backend_status": seen.backend_status})
            self._watch_plan(session, job, order, seen, now)
            for kind, fields in surprises(job, seen):
                self._tell(session, job, kind, fields, now)
            job.num_troubles = job.num_missing = 0
            job.trouble = None
            # A wish to stop that came meanwhile is carried out at once.
            hurries = job.stop_requested_at is not None and job.status != JobStatus.STOPPING
            wait_s = 0.0 if hurries else next_look_s(job, now)
            give_back(job, now + timedelta(seconds=wait_s))
        return False

    def _finish(
        self,
        identity: str,
        end: _End,
        *,
        seen: Observation | None = None,
        checks: tuple[Check, ...] = (),
    ) -> bool:
        """Record the end with all that was learnt, in one transaction."""
        with self._database.writing() as session:
            job = self._held(session, identity)
            now = self._clock(session)
            order = order_of(job)
            if seen is not None:
                if JobStatus(job.status) is JobStatus.SUBMITTING:
                    self._submitted(session, job)
                self._note(session, job, seen, now)
                if seen.started_at is not None and job.status == JobStatus.SUBMITTED:
                    # It ran between two looks.
                    self._set(session, job, JobStatus.RUNNING, {"backend_status": "missed"})
            if checks:
                job.preflight = _json([asdict(check) for check in checks])
            if end.log_tail:
                job.log_tail = "\n".join(end.log_tail)[-64_000:]
            if end.diagnosis is not None:
                job.failure_reason = end.diagnosis.reason[:MAX_TEXT]
                job.remedy = end.diagnosis.remedy
            job.ended_at = job.ended_at or now
            job.result = None if end.document is None else _json(end.document)
            stored = self._learn(session, job, order, end, now)
            self._set(session, job, end.status, {"reason": job.failure_reason})
            give_back(job, None)
        return stored

    def _learn(self, session: Session, job: Job, order: JobOrder, end: _End, now: datetime) -> bool:
        found: Result | None = None
        if end.document is not None:
            found = result_of(job, order, end.document)
        if found is None and end.diagnosis is not None and end.diagnosis.is_out_of_memory:
            found = out_of_memory_result(job, order, now)
        if found is None:
            return False
        try:
            add_results(session, [found], uploaded_by=f"job {job.name}")
        except Conflict:
            _logger.warning("a result of this job is stored already", extra={"job": job.id})
            return False
        job.result_id = found.id
        record_event(session, job, "result_stored", {"result_id": found.id}, now)
        return True

    def _submitted(self, session: Session, job: Job) -> None:
        now = self._clock(session)
        job.submitted_at = now
        self._set(session, job, JobStatus.SUBMITTED, {})

    def _set(
        self, session: Session, job: Job, status: JobStatus, detail: Mapping[str, Any]
    ) -> None:
        """Go to a status, with its event and its notice; what may not follow is not done."""
        now = self._clock(session)
        before = JobStatus(job.status)
        if not may_follow(before, status):
            _logger.warning(
                "status ignored", extra={"job": job.id, "from": before.value, "to": status.value}
            )
            return
        job.status = status.value
        if status is JobStatus.RUNNING and job.started_at is None:
            job.started_at = now
        # A job that waits again between two segments of its reservation runs more than once.
        again = {JobStatus.SUBMITTED, JobStatus.RUNNING}
        key = f"{status.value}:{now.isoformat()}" if status in again else status.value
        if record_event(session, job, status.value, detail, now, key=key):
            announce(session, job, status.value, now)

    def _tell(
        self, session: Session, job: Job, kind: str, fields: Mapping[str, Any], now: datetime
    ) -> None:
        """An event that is no status, with its notice; once for each job."""
        if record_event(session, job, kind, fields, now):
            announce(session, job, kind, now, fields=fields)

    @staticmethod
    def _note(session: Session, job: Job, seen: Observation, now: datetime) -> None:
        """Copy what the backend says to the job; each of its own transitions is an event, once."""
        job.backend_status = seen.backend_status
        job.backend_arn = seen.backend_arn or job.backend_arn
        job.training_plan_arn = seen.training_plan_arn
        job.started_at = seen.started_at or job.started_at
        job.ended_at = seen.ended_at
        job.billable_s = seen.billable_s
        job.changes = _json(list(seen.changes))
        if seen.progress is not None:
            job.progress = _json(asdict(seen.progress))
        job.transitions = _json([_plain(asdict(each)) for each in seen.transitions])
        for each in seen.transitions:
            key = f"backend:{each.status}:{each.started_at.isoformat()}"
            detail = {"status": each.status, "message": each.message[:MAX_TEXT]}
            record_event(session, job, "backend", detail, now, key=key)

    def _watch_plan(
        self, session: Session, job: Job, order: JobOrder, seen: Observation, now: datetime
    ) -> None:
        """A job that lost its reservation costs money that nobody agreed to: stop it."""
        wanted = order.training_plan_arn
        if wanted is None or seen.training_plan_arn == wanted:
            return
        fields = {"asked_for": wanted, "runs_with": seen.training_plan_arn or "none"}
        self._tell(session, job, "training_plan_dropped", fields, now)
        if not order.allow_on_demand and job.stop_requested_at is None:
            job.stop_requested_at = now

    def _stopping(self, identity: str) -> None:
        with self._database.writing() as session:
            self._set(session, self._held(session, identity), JobStatus.STOPPING, {})

    def _missing(self, identity: str) -> None:
        """The backend does not know a job that was submitted."""
        with self._database.writing() as session:
            job = held_job(session, identity, self._owner)
            if job is None:
                return
            job.num_missing += 1
            now = self._clock(session)
            if job.num_missing < MAX_MISSING:
                give_back(job, now + timedelta(seconds=after_trouble_s(job.num_missing)))
                return
            job.failure_reason = "the backend no longer knows the job"
            job.remedy = "it was deleted there: resume it from its checkpoints, or start it anew"
            job.ended_at = now
            self._set(session, job, JobStatus.FAILED, {"reason": job.failure_reason})
            give_back(job, None)

    def _trouble(self, identity: str, text: str) -> None:
        """The backend could not be asked: later again, ever more slowly."""
        with self._database.writing() as session:
            job = held_job(session, identity, self._owner)
            if job is None:
                return
            job.num_troubles += 1
            job.trouble = text[:MAX_TEXT]
            now = self._clock(session)
            wait_s = after_trouble_s(job.num_troubles)
            give_back(job, now + timedelta(seconds=wait_s))
        _logger.warning("backend trouble", extra={"job": identity, "reason": text[:300]})

    def _held(self, session: Session, identity: str) -> Job:
        job = held_job(session, identity, self._owner)
        if job is None:
            raise LeaseLost
        return job


def _end_of(order: JobOrder, service: TrainingService, seen: Observation) -> _End:
    """Everything about the end that only the backend knows."""
    log = service.log_tail(order, num_lines=LOG_LINES)
    document = service.result(order)
    diagnosis = None
    if seen.status is not JobStatus.COMPLETED:
        diagnosis = diagnose(seen.failure_reason, log)
    if seen.status is JobStatus.STOPPED and diagnosis is not None:
        diagnosis = Diagnosis(
            reason=seen.failure_reason or "stopped as asked",
            remedy="a job with checkpoints can be resumed",
            is_out_of_memory=False,
        )
    return _End(status=seen.status, diagnosis=diagnosis, document=document, log_tail=log)


def _stopped_early() -> _End:
    diagnosis = Diagnosis(
        reason="stopped before it was submitted", remedy="", is_out_of_memory=False
    )
    return _End(status=JobStatus.STOPPED, diagnosis=diagnosis)


def _refused_by(failed: list[Check]) -> _End:
    """Preflight says no: nothing was submitted and nothing is owed."""
    reason = "; ".join(f"{check.name}: {check.detail}" for check in failed)
    remedy = "; ".join(check.remedy for check in failed if check.remedy)
    diagnosis = Diagnosis(reason=f"not submitted: {reason}", remedy=remedy, is_out_of_memory=False)
    return _End(status=JobStatus.FAILED, diagnosis=diagnosis)


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: value.isoformat() if isinstance(value, datetime) else value
        for key, value in values.items()
    }


def _json(content: object) -> str:
    return json.dumps(content)
