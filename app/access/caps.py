"""Caps: what a key may spend on one job and in one calendar month.

What counts is what a job may cost at most, for that is known before it runs.
"""

from datetime import UTC, datetime
from decimal import ROUND_CEILING, Decimal

from sqlalchemy import and_, func, not_, select
from sqlalchemy.orm import Session

from app.access.errors import BudgetExceeded, NotLoggedIn
from app.access.roles import Actor
from app.access.tables import ApiKey
from app.jobs.tables import Job
from app.jobs.training_service import JobStatus

_CENT = Decimal("0.01")


def check_caps(
    session: Session,
    actor: Actor,
    max_usd: Decimal | None,
    now: datetime,
    *,
    locks: bool = True,
) -> None:
    """Raise BudgetExceeded where a job of at most max_usd would pass a cap of its key.

    The job must be written in this same transaction, and it must be one that writes: of two
    requests at once the second waits here until the first has committed, and counts its job.
    locks: False only looks, for a preview.
    """
    if actor.key_id is None:
        return
    # As it is now, not as it was when the request came in; SQLite's writers take turns anyway.
    query = select(ApiKey).where(ApiKey.id == actor.key_id)
    if locks:
        query = query.with_for_update()
    key = session.scalars(query.execution_options(populate_existing=True)).one_or_none()
    if key is None or key.revoked_at is not None:
        raise NotLoggedIn("this key is no longer valid: ask an admin for another")
    if key.max_usd_per_job is None and key.max_usd_per_month is None:
        return
    if max_usd is None:
        raise BudgetExceeded(
            f"the price of this job is not known, and the key {key.name} may spend "
            f"{_caps_text(key)}: ask for a recommendation with a price first (a region where the "
            "instance type is sold, or your own usd_per_instance_hour)"
        )
    asked = max_usd.quantize(_CENT, rounding=ROUND_CEILING)
    if key.max_usd_per_job is not None and asked > key.max_usd_per_job:
        raise BudgetExceeded(
            f"this job may cost {_usd(asked)}, and the key {key.name} may spend "
            f"{_usd(key.max_usd_per_job)} on one job: set a smaller max_runtime_hours, choose a "
            "cheaper candidate, or ask an admin for a key with a higher cap"
        )
    if key.max_usd_per_month is not None:
        _check_month(session, key, asked, key.max_usd_per_month, now)


def spent_in_month(session: Session, key_id: str, now: datetime) -> Decimal:
    """What this key's jobs of the calendar month (UTC) may cost at most, together.

    Jobs that ended before they reached their backend cost nothing and do not count.
    """
    first, following = _month(now)
    never_sent = and_(
        Job.status.in_([JobStatus.FAILED.value, JobStatus.STOPPED.value]),
        Job.submitted_at.is_(None),
        Job.started_at.is_(None),
        Job.backend_arn.is_(None),
        Job.billable_s.is_(None),
    )
    query = select(func.sum(Job.max_usd)).where(
        Job.created_by == key_id,
        Job.created_at >= first,
        Job.created_at < following,
        not_(never_sent),
    )
    return session.scalar(query) or Decimal(0)


def _check_month(
    session: Session, key: ApiKey, asked: Decimal, cap: Decimal, now: datetime
) -> None:
    spent = spent_in_month(session, key.id, now)
    if spent + asked > cap:
        following = _month(now)[1]
        left = _usd(max(cap - spent, Decimal(0)))
        raise BudgetExceeded(
            f"this job may cost {_usd(asked)}, jobs of this month may cost {_usd(spent)} already, "
            f"and the key {key.name} may spend {_usd(cap)} in a month: {left} "
            f"are left until {following:%Y-%m-%d} 00:00 UTC. Set a smaller max_runtime_hours, wait "
            "until then, or ask an admin for a key with a higher cap"
        )


def _month(now: datetime) -> tuple[datetime, datetime]:
    """Where the calendar month of this time begins and ends, in UTC."""
    here = now.astimezone(UTC)
    first = datetime(here.year, here.month, 1, tzinfo=UTC)
    years, month = divmod(here.month, 12)
    return first, datetime(here.year + years, month + 1, 1, tzinfo=UTC)


def _caps_text(key: ApiKey) -> str:
    caps = ((key.max_usd_per_job, "on one job"), (key.max_usd_per_month, "in a month"))
    return " and ".join(f"{_usd(cap)} {of}" for cap, of in caps if cap is not None)


def _usd(amount: Decimal) -> str:
    return f"${amount:,.2f}"
