"""The audit trail: who did what to which thing, written in the transaction that did it."""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.access.roles import Actor
from app.access.tables import AuditEntry
from app.database import database_now
from app.errors import shortened
from app.logs import REQUEST_ID

MAX_ACTION, MAX_SUBJECT, MAX_DETAIL = 60, 200, 2000
# Callers have no business with these; should one be in a text, it ends here.
_SECRET = re.compile(
    r"swk_[0-9a-f]+_[0-9a-f]+|https://hooks\.slack\S+|(AKIA|ASIA)[A-Z0-9]{16}|xox[a-z]-\S+"
)


def record(
    session: Session,
    actor: Actor,
    action: str,
    subject: str,
    detail: str = "",
    *,
    at: datetime | None = None,
) -> None:
    """Add an entry in the caller's transaction: it holds if and only if the deed holds.

    action: a verb with its noun, such as "job.start". subject: the name or id of what it was done
    to. at: by default the database's clock.
    """
    session.add(
        AuditEntry(
            at=database_now(session) if at is None else at,
            actor=actor.name,
            key_id=actor.key_id,
            action=_clean(action, MAX_ACTION),
            subject=_clean(subject, MAX_SUBJECT),
            detail=_clean(detail, MAX_DETAIL),
            request_id=REQUEST_ID.get(),
        )
    )


def entries(session: Session, limit: int, before: int | None = None) -> Sequence[AuditEntry]:
    """The newest entries first; before: only those with a smaller id, for the next page."""
    query = select(AuditEntry).order_by(AuditEntry.id.desc()).limit(limit)
    if before is not None:
        query = query.where(AuditEntry.id < before)
    return session.scalars(query).all()


def entry_json(entry: AuditEntry) -> dict[str, Any]:
    """An entry as plain values."""
    return {
        "id": entry.id,
        "at": entry.at.isoformat(),
        "actor": entry.actor,
        "key_id": entry.key_id,
        "action": entry.action,
        "subject": entry.subject,
        "detail": entry.detail,
        "request_id": entry.request_id,
    }


def _clean(text: str, limit: int) -> str:
    return shortened(_SECRET.sub("[secret]", text).replace("\x00", ""), limit)
