"""Pages that sell training plans: what AWS offers for a run, and the order with its price."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import RedirectResponse, Response

from app.access.guard import CurrentActor
from app.render_plans import render_offers, render_order
from app.routes.plans import CurrentAws
from app.sent_form import sent_form
from app.service import CurrentService

router = APIRouter(include_in_schema=False)


@router.get("/plans/offers")
def offers(
    request: Request, service: CurrentService, clients: CurrentAws, actor: CurrentActor
) -> Response:
    """What AWS would sell for a recommended run; without a recommendation the form alone."""
    query = request.query_params
    values = {name: query.getlist(name) for name in query if query[name].strip()}
    return render_offers(request, values, service, clients, actor)


@router.post("/plans/offers")
def order(
    request: Request,
    values: Annotated[Any, Depends(sent_form)],
    service: CurrentService,
    clients: CurrentAws,
    actor: CurrentActor,
) -> Response:
    """Order the offering whose price was typed back; a form that is sent twice orders once."""
    refusal = render_order(request, values, service, clients, actor)
    return refusal or RedirectResponse("/plans", status_code=303)
