"""Purchases of training plans: wanted by a person, carried out by the worker, never done twice.

A purchase is a row first, with a name that follows from the offering. Whoever carries it out looks
for a plan of that name before and after asking AWS to sell: an answer that was lost leaves the row
"requested", and the next try finds what was bought.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.orm import Session

from advisor.catalog import Catalog
from app.access import audit
from app.access.roles import Actor
from app.aws.offerings import MEMORY, Offering, SeenOfferings, Wish, offers_for
from app.aws.tables import PlanPurchase
from app.aws.training_plans import AwsTrouble, Clients, TrainingPlan, asking_aws, describe_plan
from app.database import Database
from app.errors import Conflict, NotFound

REQUESTED, BOUGHT, FAILED = "requested", "bought", "failed"
# Nobody who confirmed a price expects to pay it much later.
MAX_AGE = timedelta(hours=1)
TAG = "shardwise:offering"
# After these nothing is wrong with the purchase itself: it is tried again.
_TRY_AGAIN = ("clock", "credentials", "taken")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOrder:
    """What a person confirms: an offering, and its price as they read it.

    recommendation_id: what it was searched for; finds the offering again after a restart.
    """

    offering_id: str
    region: str
    price_usd: Decimal
    recommendation_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Purchase:
    """One purchase as it stands. status: requested, bought or failed (with a reason)."""

    name: str
    offering_id: str
    region: str
    price_usd: Decimal
    status: str
    requested_by: str
    requested_at: datetime
    finished_at: datetime | None
    training_plan_arn: str | None
    reason: str | None

    def as_json(self) -> dict[str, Any]:
        """Plain values for programs."""
        return {
            "name": self.name,
            "offering_id": self.offering_id,
            "region": self.region,
            "price_usd": float(self.price_usd),
            "status": self.status,
            "requested_by": self.requested_by,
            "requested_at": self.requested_at.isoformat(),
            "finished_at": self.finished_at.isoformat() if self.finished_at else None,
            "training_plan_arn": self.training_plan_arn,
            "reason": self.reason,
        }


def purchase_name(offering_id: str) -> str:
    """The name of the plan that is bought with an offering: always the same."""
    return f"shardwise-{hashlib.sha256(offering_id.encode()).hexdigest()[:32]}"


def request_purchase(
    session: Session, offering: Offering, *, price_usd: Decimal, bought_by: str, now: datetime
) -> Purchase:
    """Write down that an offering is to be bought; AWS is asked later, by finish_purchase.

    Raises Conflict when the price typed back is not AWS's, or the plan is bought already.
    """
    fee = offering.price_usd
    if fee is None:
        raise Conflict(
            f"the offering's fee is {offering.upfront_fee!r} {offering.currency}, which is no "
            "amount of US dollars: buy it in the AWS console"
        )
    if price_usd != fee:
        raise Conflict(
            f"price_usd: the offering costs {offering.upfront_fee} USD, not {price_usd}; nothing "
            "was bought. Send AWS's price exactly as it was shown to confirm it"
        )
    name = purchase_name(offering.id)
    row = {
        "name": name,
        "offering_id": offering.id,
        "region": offering.region,
        "price_usd": fee,
        "status": REQUESTED,
        "requested_by": bought_by,
        "requested_at": now,
    }
    is_sqlite = session.get_bind().dialect.name == "sqlite"
    insert = sqlite_insert if is_sqlite else postgresql_insert
    session.execute(insert(PlanPurchase).values(row).on_conflict_do_nothing())
    stored = session.get_one(PlanPurchase, name, with_for_update=True)
    if stored.status == BOUGHT:
        raise Conflict(f"this offering is bought already: {stored.training_plan_arn}")
    if stored.status == FAILED:
        # Nothing was bought: the same offering may be wanted again.
        stored.status, stored.reason, stored.finished_at = REQUESTED, None, None
        stored.requested_by, stored.requested_at = bought_by, now
        session.flush()
    return _purchase(stored)


def order_plan(
    database: Database,
    clients: Clients,
    seen: SeenOfferings,
    order: PlanOrder,
    *,
    catalog: Catalog,
    actor: Actor,
    now: datetime,
) -> Purchase:
    """Request the purchase of an offering that was shown lately, or that AWS offers still.

    Raises Conflict when there is none, when the price is wrong, or when it is bought already;
    AwsTrouble when AWS had to be asked again and gave no answer.
    """
    offering = seen.recall(order.region, order.offering_id)
    if offering is None and order.recommendation_id is not None:
        wish = Wish(recommendation_id=order.recommendation_id, candidate=0, region=order.region)
        offers_for(database, clients, seen, wish, catalog=catalog, now=now)
        offering = seen.recall(order.region, order.offering_id)
    if offering is None:
        raise Conflict(
            f"offering_id: no such offering in {order.region} was shown in the last "
            f"{int(MEMORY.total_seconds() // 60)} minutes; search again (POST /plans/search)"
        )
    with database.writing() as session:
        purchase = request_purchase(
            session, offering, price_usd=order.price_usd, bought_by=actor.name, now=now
        )
        detail = f"{offering.upfront_fee} USD in {order.region}"
        audit.record(session, actor, "plan.buy", order.offering_id, detail, at=now)
        return purchase


def requested_purchases(session: Session) -> tuple[str, ...]:
    """Names of the purchases that finish_purchase has to be called for, oldest first."""
    wanted = select(PlanPurchase.name).where(PlanPurchase.status == REQUESTED)
    return tuple(session.scalars(wanted.order_by(PlanPurchase.requested_at)))


def recent_purchases(database: Database, *, limit: int = 100) -> tuple[Purchase, ...]:
    """The newest purchases first."""
    newest = select(PlanPurchase).order_by(PlanPurchase.requested_at.desc()).limit(limit)
    with database.reading() as session:
        return tuple(_purchase(row) for row in session.scalars(newest))


def finish_purchase(database: Database, clients: Clients, name: str, now: datetime) -> Purchase:
    """Buy what was requested, unless it is bought already. No transaction is open meanwhile.

    Raises NotFound for an unknown name, and AwsTrouble when AWS gave no answer: the purchase is
    then still requested, and is to be tried again.
    """
    with database.reading() as session:
        row = session.get(PlanPurchase, name)
        wanted = None if row is None else _purchase(row)
    if wanted is None:
        raise NotFound(f"no purchase is named {name}")
    if wanted.status != REQUESTED:
        return wanted
    found = _existing(clients, wanted)
    if found is None and now - wanted.requested_at > MAX_AGE:
        hours = int(MAX_AGE.total_seconds() // 3600)
        reason = f"AWS did not answer within {hours} hour; nothing was bought. Search again"
        return _record(database, wanted, now, reason=reason)
    if found is not None:
        return _record_plan(database, wanted, found, now)
    return _buy(database, clients, wanted, now)


def _existing(clients: Clients, wanted: Purchase) -> TrainingPlan | None:
    """The plan of this purchase, if there is one. Raises AwsTrouble when that is not known."""
    try:
        return describe_plan(clients, wanted.name, wanted.region)
    except AwsTrouble as error:
        if error.kind == "missing":
            return None
        raise


def _buy(database: Database, clients: Clients, wanted: Purchase, now: datetime) -> Purchase:
    try:
        with asking_aws("sell the training plan"):
            answer = clients.client("sagemaker", wanted.region).create_training_plan(
                TrainingPlanName=wanted.name,
                TrainingPlanOfferingId=wanted.offering_id,
                Tags=[{"Key": TAG, "Value": wanted.offering_id}],
            )
    except AwsTrouble as error:
        if error.kind in ("unreachable", "throttled"):
            raise
        # An earlier try whose answer was lost may have bought it, whatever the refusal says.
        found = _existing(clients, wanted)
        if found is not None:
            return _record_plan(database, wanted, found, now)
        if error.kind in _TRY_AGAIN:
            raise
        return _record(database, wanted, now, reason=error.detail)
    return _record(database, wanted, now, arn=str(answer["TrainingPlanArn"]))


def _record_plan(
    database: Database, wanted: Purchase, plan: TrainingPlan, now: datetime
) -> Purchase:
    if plan.status == "Failed":
        reason = f"AWS could not complete the purchase: {plan.status_message or 'no reason given'}"
        return _record(database, wanted, now, reason=reason)
    return _record(database, wanted, now, arn=plan.arn)


def _record(
    database: Database,
    wanted: Purchase,
    now: datetime,
    *,
    arn: str | None = None,
    reason: str | None = None,
) -> Purchase:
    """Write how a purchase ended. What is bought stays so, whoever records a failure later."""
    before: Sequence[str] = (REQUESTED, FAILED) if arn else (REQUESTED,)
    values = {
        "status": BOUGHT if arn else FAILED,
        "training_plan_arn": arn,
        "reason": reason,
        "finished_at": now,
    }
    with database.writing() as session:
        mine = PlanPurchase.name == wanted.name
        session.execute(
            update(PlanPurchase).where(mine, PlanPurchase.status.in_(before)).values(values)
        )
        return _purchase(session.get_one(PlanPurchase, wanted.name, populate_existing=True))


def _purchase(row: PlanPurchase) -> Purchase:
    return Purchase(
        name=row.name,
        offering_id=row.offering_id,
        region=row.region,
        price_usd=row.price_usd,
        status=row.status,
        requested_by=row.requested_by,
        requested_at=row.requested_at,
        finished_at=row.finished_at,
        training_plan_arn=row.training_plan_arn,
        reason=row.reason,
    )
