"""The outbox: notices written with the change that they announce, and sent afterwards.

At least once: a worker that dies between sending and noting it sends again. A job's notice of one
kind exists once. One message a second leaves for the webhook, however many workers there are.
"""

import json
import logging
import secrets
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Protocol

from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from app.database import Database, database_now, insert_unless_there
from app.jobs.lease import claim, give_back, held_notice, is_any_due
from app.jobs.pace import after_trouble_s
from app.jobs.tables import Job
from app.notices.messages import KINDS, about_job
from app.notices.outcome import Outcome, Parked, Retry, Sent
from app.notices.tables import Notice

# Slack takes about one message a second for each webhook.
SPACING_S = 1.0
# After that nobody wants to read it any more.
GIVE_UP_AFTER = timedelta(days=3)
# Any constant: whoever would send waits for one lock on PostgreSQL.
SENDING_LOCK = 7_204_551_304
_logger = logging.getLogger(__name__)


class Sender(Protocol):
    """Whatever brings a message to people."""

    def send(self, kind: str, payload: Mapping[str, Any]) -> Outcome:
        """Send one message; never raises for what the other side does."""
        ...


def announce(
    session: Session,
    job: Job,
    kind: str,
    now: datetime,
    *,
    fields: Mapping[str, Any] | None = None,
) -> None:
    """Write a notice about a job in the caller's transaction; nothing for kinds not told."""
    if kind in KINDS:
        payload = {**about_job(job, now), **(fields or {})}
        write_notice(session, f"{job.id}:{kind}", kind, payload, now, job_id=job.id)


def write_notice(
    session: Session,
    key: str,
    kind: str,
    payload: Mapping[str, Any],
    now: datetime,
    *,
    job_id: str | None = None,
) -> bool:
    """Write one notice; False when one of this key was written before."""
    row = {
        "id": secrets.token_hex(16),
        "key": key,
        "job_id": job_id,
        "kind": kind,
        "payload": json.dumps(payload),
        "created_at": now,
        "due_at": now,
        "num_attempts": 0,
    }
    return insert_unless_there(session, Notice, row)


class Outbox:
    """Sends due notices, one after the other."""

    def __init__(
        self,
        database: Database,
        sender: Sender,
        owner: str,
        *,
        clock: Callable[[Session], datetime] = database_now,
    ) -> None:
        self._database = database
        self._sender = sender
        self._owner = owner
        self._clock = clock

    def deliver_one(self) -> bool:
        """Send the notice that is longest due, if one may be sent now; whether one was tried."""
        taken = self._take()
        if taken is None:
            return False
        identity, kind, payload = taken
        outcome = self._sender.send(kind, payload)
        with self._database.writing() as session:
            notice = held_notice(session, identity, self._owner)
            if notice is not None:
                _note(notice, outcome, self._clock(session))
        return True

    def _take(self) -> tuple[str, str, Mapping[str, Any]] | None:
        with self._database.reading() as session:
            if not is_any_due(session, Notice, self._clock(session)):
                return None
        with self._database.writing() as session:
            if session.get_bind().dialect.name == "postgresql":
                session.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": SENDING_LOCK})
            now = self._clock(session)
            if _is_too_soon(session, now):
                return None
            ids = claim(session, Notice, self._owner, now, limit=1)
            if not ids:
                return None
            notice = session.get_one(Notice, ids[0])
            return notice.id, notice.kind, json.loads(notice.payload)


def _is_too_soon(session: Session, now: datetime) -> bool:
    """Whether a message is on its way, or one left within the last second."""
    on_its_way = select(func.count()).where(Notice.lease_until >= now)
    last = session.scalar(select(func.max(Notice.sent_at)))
    return bool(session.scalar(on_its_way)) or (
        last is not None and now - last < timedelta(seconds=SPACING_S)
    )


def _note(notice: Notice, outcome: Outcome, now: datetime) -> None:
    notice.num_attempts += 1
    if isinstance(outcome, Sent):
        notice.sent_at = now
        give_back(notice, None)
        return
    if isinstance(outcome, Retry) and now - notice.created_at < GIVE_UP_AFTER:
        wait_s = outcome.after_s or after_trouble_s(notice.num_attempts)
        give_back(notice, now + timedelta(seconds=wait_s))
        return
    reason = outcome.reason if isinstance(outcome, Parked) else f"given up: {outcome.reason}"
    notice.parked_reason = reason
    give_back(notice, None)
    _logger.error("a notice was parked", extra={"notice": notice.key, "reason": reason})
