"""Training plans: those of the account, what AWS would sell for a run, and buying one."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import AwareDatetime, BeforeValidator, Field, StringConstraints

from app.access.guard import CurrentActor
from app.aws.offerings import Wish, offers_for
from app.aws.purchases import PlanOrder, order_plan, recent_purchases
from app.aws.training_plans import Clients, list_plans, plan_json, time_line
from app.errors import Conflict, wants_html
from app.render import page_response
from app.routes.strict import StrictJsonRoute
from app.schemas import WHOLE, Strict
from app.service import CurrentService

MAX_HOURS = 182 * 24
router = APIRouter(route_class=StrictJsonRoute)


def _amount(value: object) -> object:
    """A price as text: a number in JSON is taken as it is written, as far as it is exact."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    return repr(value)


RegionName = Annotated[str, StringConstraints(pattern=r"^[a-z]{2,4}(-[a-z]+)+-\d$", max_length=40)]
OptionalRegion = Annotated[
    str, StringConstraints(pattern=r"^([a-z]{2,4}(-[a-z]+)+-\d)?$", max_length=40)
]
Identity = Annotated[str, StringConstraints(min_length=1, max_length=64)]


class PlanSearch(Strict):
    """A search for training plans on sale. Only `recommendation_id` is required."""

    recommendation_id: Identity
    candidate: Annotated[int, Field(ge=0, le=100), WHOLE] = 0
    region: RegionName | None = None
    # Times come as text.
    start_after: Annotated[AwareDatetime, Field(strict=False)] | None = None
    max_wait_hours: Annotated[float, Field(ge=0, le=MAX_HOURS)] | None = None
    duration_hours: Annotated[float, Field(gt=0, le=MAX_HOURS)] | None = None


class PlanPurchaseOrder(Strict):
    """A purchase: the offering that was shown, and its price typed back to confirm it."""

    offering_id: Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]{1,256}$")]
    recommendation_id: Identity | None = None
    region: RegionName
    price_usd: Annotated[
        str, BeforeValidator(_amount), StringConstraints(pattern=r"^\d{1,12}(\.\d{1,6})?$")
    ]


def current_aws(service: CurrentService) -> Clients:
    """The clients of AWS. Raises Conflict when AWS is off."""
    if service.aws is None:
        raise Conflict(
            "AWS is off: set SHARDWISE_AWS_ENABLED=true and SHARDWISE_AWS_REGION, then restart"
        )
    return service.aws


def may_buy(service: CurrentService) -> None:
    """Raise Conflict when buying is off."""
    if not service.settings.allow_plan_purchase:
        raise Conflict(
            "buying training plans is off: set SHARDWISE_ALLOW_PLAN_PURCHASE=true, or buy it in "
            "the AWS console"
        )


CurrentAws = Annotated[Clients, Depends(current_aws)]


@router.get("/plans")
def plans(
    request: Request,
    service: CurrentService,
    clients: CurrentAws,
    region: Annotated[OptionalRegion, Query()] = "",
) -> Any:
    """The account's training plans in a region, with the time that is left in each."""
    place, now = _region(region, service), datetime.now(UTC)
    found = list_plans(clients, place)
    content = {
        "region": place,
        "plans": [plan_json(each, now) for each in found],
        "purchases": [each.as_json() for each in recent_purchases(service.database)],
    }
    if wants_html(request):
        lines = [time_line(each, now) for each in found]
        return page_response(request, "plans.html", {**content, "lines": lines})
    return JSONResponse(content, headers={"Vary": "Accept"})


@router.post("/plans/search")
def search(
    sent: PlanSearch,
    service: CurrentService,
    clients: CurrentAws,
) -> dict[str, Any]:
    """What AWS would sell for a recommended run, each with its price and what it means."""
    wish = Wish(
        recommendation_id=sent.recommendation_id,
        candidate=sent.candidate,
        region=_region(sent.region or "", service),
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


@router.post(
    "/plans", status_code=202, response_class=JSONResponse, dependencies=[Depends(may_buy)]
)
def buy(
    sent: PlanPurchaseOrder,
    actor: CurrentActor,
    service: CurrentService,
    clients: CurrentAws,
) -> Response:
    """Order a training plan at the price that was shown. The worker buys it, once."""
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
    return JSONResponse(purchase.as_json(), status_code=202)


def _region(named: str, service: CurrentService) -> str:
    """The region that was named, else the service's own. Raises Conflict without either."""
    region = named or service.settings.aws_region
    if not region:
        raise Conflict("name a region, or set SHARDWISE_AWS_REGION")
    return region
