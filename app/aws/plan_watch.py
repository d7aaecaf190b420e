"""PlanWatch: what the worker does about training plans: buys what was ordered, tells what is near.

It never raises: that AWS gives no answer is logged, and asked again a minute later.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from app.aws.purchases import finish_purchase, requested_purchases
from app.aws.tables import PlanPurchase
from app.aws.training_plans import Clients, TrainingPlan, list_plans, minute
from app.database import Database
from app.errors import AppError
from app.notices.outbox import write_notice

EVERY = timedelta(minutes=1)
STARTS_WITHIN = timedelta(hours=1)
# Each is told once, when so much is left of a block: longest first.
ENDS_WITHIN = (
    ("plan_ends_in_2_hours", timedelta(hours=2)),
    ("plan_ends_in_45_minutes", timedelta(minutes=45)),
)
IDLE_FOR = timedelta(minutes=15)
_logger = logging.getLogger(__name__)


class PlanWatch:
    """Looks at the plans of the service's region, and of every region where one was bought."""

    def __init__(
        self, database: Database, clients: Clients, region: str, clock: Callable[[], datetime]
    ) -> None:
        self._database = database
        self._clients = clients
        self._region = region
        self._clock = clock
        self._next: datetime | None = None
        self._idle_since: dict[str, datetime] = {}

    def look(self) -> None:
        """Do what is due; AWS is asked at most once a minute."""
        now = self._clock()
        if self._next is not None and now < self._next:
            return
        self._next = now + EVERY
        try:
            self._buy(now)
            for region in self._regions():
                for plan in list_plans(self._clients, region):
                    self._tell(plan, now)
        except (AppError, SQLAlchemyError) as error:
            _logger.warning("training plans were not looked at", extra={"reason": str(error)[:300]})

    def _buy(self, now: datetime) -> None:
        with self._database.reading() as session:
            names = requested_purchases(session)
        for name in names:
            try:
                finish_purchase(self._database, self._clients, name, now)
            except AppError as error:
                _logger.warning("a purchase waits", extra={"reason": error.detail[:300]})

    def _regions(self) -> list[str]:
        with self._database.reading() as session:
            bought = session.scalars(select(PlanPurchase.region).distinct()).all()
        return sorted({self._region, *bought} - {""})

    def _tell(self, plan: TrainingPlan, now: datetime) -> None:
        found = [*_near(plan, now), *self._idle(plan, now)]
        if not found:
            return
        with self._database.writing() as session:
            for kind, at in found:
                write_notice(session, f"{plan.arn}:{kind}:{at}"[-200:], kind, _payload(plan), now)

    def _idle(self, plan: TrainingPlan, now: datetime) -> Iterator[tuple[str, str]]:
        is_idle = plan.status == "Active" and plan.num_in_use == 0 and _block(plan, now) is not None
        if not is_idle:
            self._idle_since.pop(plan.arn, None)
            return
        since = self._idle_since.setdefault(plan.arn, now)
        if now - since >= IDLE_FOR:
            # Once for each time that it falls idle.
            yield "plan_is_idle", f"{since:%Y%m%dT%H%M}"


def _near(plan: TrainingPlan, now: datetime) -> Iterator[tuple[str, str]]:
    """Starts and ends of a live plan's blocks that are near: kind, and which block."""
    if not plan.is_live:
        return
    for segment in plan.segments:
        if now < segment.start_at <= now + STARTS_WITHIN:
            yield "plan_starts_soon", f"{segment.start_at:%Y%m%dT%H%M}"
    block = _block(plan, now)
    if block is None:
        return
    # The nearest only: whoever looks late is not told what has passed.
    due = [kind for kind, before in ENDS_WITHIN if block - before <= now]
    for kind in due[-1:]:
        yield kind, f"{block:%Y%m%dT%H%M}"


def _block(plan: TrainingPlan, now: datetime) -> datetime | None:
    """When the block ends that is under way; None between blocks."""
    ends = [each.end_at for each in plan.segments if each.start_at <= now < each.end_at]
    return min(ends, default=None)


def _payload(plan: TrainingPlan) -> Mapping[str, Any]:
    in_use = "?" if plan.num_in_use is None else plan.num_in_use
    return {
        "training_plan": plan.arn,
        "job": plan.name,
        "instances": f"{plan.num_total} × {plan.instance_type}",
        "starts_at": minute(plan.segments[0].start_at) if plan.segments else None,
        "ends_at": minute(plan.segments[-1].end_at) if plan.segments else None,
        "jobs": f"{in_use} instances in use",
    }
