"""Training plans on sale, for programs and for pages alike: what AWS offers, and ordering it."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from app.access.roles import Actor
from app.aws.offerings import Wish, offers_for
from app.aws.purchases import PlanOrder, Purchase, order_plan
from app.aws.training_plans import Clients
from app.errors import Conflict
from app.plan_schemas import PlanPurchaseOrder, PlanSearch
from app.service import Service


def named_region(named: str, service: Service) -> str:
    """The region that was named, else the service's own. Raises Conflict without either."""
    region = named or service.settings.aws_region
    if not region:
        raise Conflict("name a region, or set SHARDWISE_AWS_REGION")
    return region


def check_buying(service: Service) -> None:
    """Raise Conflict where buying is off."""
    if not service.settings.allow_plan_purchase:
        raise Conflict(
            "buying training plans is off: set SHARDWISE_ALLOW_PLAN_PURCHASE=true, or buy it in "
            "the AWS console"
        )


def search_plans(service: Service, clients: Clients, sent: PlanSearch) -> dict[str, Any]:
    """What AWS would sell for a recommended run, beside it. Raises what offers_for raises."""
    wish = Wish(
        recommendation_id=sent.recommendation_id,
        candidate=sent.candidate,
        region=named_region(sent.region or "", service),
        start_after=sent.start_after,
        max_wait_hours=sent.max_wait_hours,
        duration_hours=sent.duration_hours,
    )
    return offers_for(
        service.database,
        clients,
        service.offerings,
        wish,
        catalog=service.knowledge().catalog,
        now=datetime.now(UTC),
    )


def buy_plan(service: Service, clients: Clients, sent: PlanPurchaseOrder, actor: Actor) -> Purchase:
    """Order an offering at the price that was typed back; the worker is woken to buy it.

    Raises Conflict where buying is off, and what order_plan raises.
    """
    check_buying(service)
    order = PlanOrder(
        offering_id=sent.offering_id,
        region=sent.region,
        price_usd=Decimal(sent.price_usd),
        recommendation_id=sent.recommendation_id,
    )
    purchase = order_plan(
        service.database,
        clients,
        service.offerings,
        order,
        catalog=service.knowledge().catalog,
        actor=actor,
        now=datetime.now(UTC),
    )
    service.worker.wake()
    return purchase
