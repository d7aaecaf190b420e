"""Leases: which rows are due, and that exactly one worker looks at each.

A row is due when due_at has come and nobody holds a lease on it that still runs. The UPDATE that
takes it repeats every condition of the SELECT: another worker may have taken and finished it since.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, or_, select, update
from sqlalchemy.orm import Session

from app.jobs.tables import Job
from app.notices.tables import Notice

# Longer than any step of a worker takes with all its calls and their time limits.
LEASE_S = 300.0


def claim(
    session: Session,
    table: type[Job] | type[Notice],
    owner: str,
    now: datetime,
    *,
    limit: int,
    only: Sequence[ColumnElement[bool]] = (),
) -> list[str]:
    """Take up to `limit` due rows for `owner`; their ids, longest due first. `only`: of which."""
    due = _due(table, now, only)
    query = select(table.id).where(*due).order_by(table.due_at, table.id).limit(limit)
    if session.get_bind().dialect.name == "postgresql":
        query = query.with_for_update(skip_locked=True)
    ids = list(session.scalars(query))
    if not ids:
        return []
    taken = session.scalars(
        update(table)
        .where(table.id.in_(ids), *due)
        .values(lease_owner=owner, lease_until=now + timedelta(seconds=LEASE_S))
        .returning(table.id)
    )
    held = set(taken)
    return [identity for identity in ids if identity in held]


def is_any_due(
    session: Session,
    table: type[Job] | type[Notice],
    now: datetime,
    *,
    only: Sequence[ColumnElement[bool]] = (),
) -> bool:
    """Whether claim() would find a row: a look that takes no lock."""
    return session.scalar(select(table.id).where(*_due(table, now, only)).limit(1)) is not None


def _due(
    table: type[Job] | type[Notice], now: datetime, only: Sequence[ColumnElement[bool]]
) -> list[ColumnElement[bool]]:
    return [
        table.due_at.is_not(None),
        table.due_at <= now,
        or_(table.lease_owner.is_(None), table.lease_until < now),
        *only,
    ]


def held_job(session: Session, identity: str, owner: str) -> Job | None:
    """The job, locked until the transaction ends; None when the lease is another's by now."""
    query = select(Job).where(Job.id == identity, Job.lease_owner == owner)
    return session.scalars(query.with_for_update()).one_or_none()


def held_notice(session: Session, identity: str, owner: str) -> Notice | None:
    """The notice, as held_job gives a job."""
    query = select(Notice).where(Notice.id == identity, Notice.lease_owner == owner)
    return session.scalars(query.with_for_update()).one_or_none()


def give_back(row: Job | Notice, due_at: datetime | None) -> None:
    """Let go of a row, until it is due again."""
    row.lease_owner, row.lease_until, row.due_at = None, None, due_at
