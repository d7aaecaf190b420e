"""Training plans: those of the account, what AWS would sell for a run, and buying one."""

from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import JSONResponse

from app.access.guard import CurrentActor
from app.aws.purchases import recent_purchases
from app.aws.training_plans import Clients, list_plans, plan_json, time_line
from app.errors import Conflict, wants_html
from app.plan_sales import buy_plan, check_buying, named_region, search_plans
from app.plan_schemas import OptionalRegion, PlanPurchaseOrder, PlanSearch
from app.render_plans import render_plans
from app.routes.strict import StrictJsonRoute
from app.service import CurrentService

router = APIRouter(route_class=StrictJsonRoute)


def current_aws(service: CurrentService) -> Clients:
    """The clients of AWS. Raises Conflict when AWS is off."""
    if service.aws is None:
        raise Conflict(
            "AWS is off: set SHARDWISE_AWS_ENABLED=true and SHARDWISE_AWS_REGION, then restart"
        )
    return service.aws


def may_buy(service: CurrentService) -> None:
    """Raise Conflict when buying is off, before anything else of the request is looked at."""
    check_buying(service)


CurrentAws = Annotated[Clients, Depends(current_aws)]


@router.get("/plans")
def plans(
    request: Request,
    service: CurrentService,
    clients: CurrentAws,
    region: Annotated[OptionalRegion, Query()] = "",
) -> Any:
    """The account's training plans in a region, with the time that is left in each."""
    place, now = named_region(region, service), datetime.now(UTC)
    found = list_plans(clients, place)
    content = {
        "region": place,
        "plans": [plan_json(each, now) for each in found],
        "purchases": [each.as_json() for each in recent_purchases(service.database)],
    }
    if wants_html(request):
        return render_plans(request, content, [time_line(each, now) for each in found])
    return JSONResponse(content, headers={"Vary": "Accept"})


@router.post("/plans/search")
def search(
    sent: PlanSearch,
    service: CurrentService,
    clients: CurrentAws,
) -> dict[str, Any]:
    """What AWS would sell for a recommended run, each with its price and what it means."""
    return search_plans(service, clients, sent)


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
    purchase = buy_plan(service, clients, sent, actor)
    return JSONResponse(purchase.as_json(), status_code=202)
