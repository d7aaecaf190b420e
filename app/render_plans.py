"""Pages of training plans: the account's own, what AWS would sell for a run, and the order."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from fastapi import Request, Response

from advisor.units import HOUR_S
from app.access.roles import Actor, Role
from app.aws.offerings import offering_json, run_of
from app.aws.training_plans import Clients, TimeLine, dollars
from app.errors import AppError, NotFound
from app.forms import FormValues
from app.plan_form import (
    labels,
    parse_order,
    parse_search,
    search_fields,
    searched,
    told_at,
)
from app.plan_sales import buy_plan, check_buying, search_plans
from app.recommendations import stored
from app.render import page_response
from app.render_jobs import candidate_choices
from app.service import Service

_INVALID = 422


def render_plans(
    request: Request, content: Mapping[str, Any], lines: Sequence[TimeLine | None]
) -> Response:
    """The account's plans with their time lines, and the search for more."""
    context = {**content, "lines": lines, "fields": search_fields(), "values": {}, "errors": {}}
    return page_response(request, "plans.html", context)


def render_offers(
    request: Request, values: FormValues, service: Service, clients: Clients, actor: Actor
) -> Response:
    """The search; below it, once it names a recommendation, what AWS would sell for it."""
    context = _context(values, service, actor)
    if not values:
        return page_response(request, "offers.html", context)
    parsed = parse_search(values)
    context.update(errors=dict(parsed.errors), unplaced=parsed.unplaced)
    if parsed.request is None:
        return page_response(request, "offers.html", context, _INVALID)
    try:
        found = search_plans(service, clients, parsed.request)
    except AppError as error:
        return _refused(request, context, error)
    context.update(found=found, offers=[_shown(each) for each in found["offerings"]])
    return page_response(request, "offers.html", context)


def render_order(
    request: Request, values: FormValues, service: Service, clients: Clients, actor: Actor
) -> Response | None:
    """Order what was confirmed: None, or the page that says why nothing was ordered."""
    parsed = parse_order(values)
    context = _context(searched(values), service, actor)
    _add_chosen(context, values, service)
    if parsed.request is None:
        _place(context, parsed.errors)
        context.update(unplaced=(*context["unplaced"], *parsed.unplaced))
        return page_response(request, "offers.html", context, _INVALID)
    try:
        buy_plan(service, clients, parsed.request, actor)
    except AppError as error:
        return _refused(request, context, error)
    return None


def _context(values: FormValues, service: Service, actor: Actor) -> dict[str, Any]:
    """What the page has before anything is searched."""
    return {
        "fields": search_fields(_candidates(values, service)),
        "labels": labels(),
        "values": values,
        "errors": {},
        "unplaced": (),
        "refused": "",
        "found": None,
        "offers": (),
        "typed": "",
        "why_not": _why_not(service, actor),
    }


def _candidates(values: FormValues, service: Service) -> list[tuple[str, str]]:
    """The candidates of the recommendation that is named; none where there is no such one."""
    identity = values.get("recommendation_id", [""])[0].strip()
    try:
        with service.database.reading() as session:
            return candidate_choices(stored(session, identity).content)
    except NotFound:
        return []


def _why_not(service: Service, actor: Actor) -> str:
    """Why nothing can be ordered here by who asks; "" where it can."""
    try:
        check_buying(service)
    except AppError as error:
        return error.detail
    if actor.role < Role.ADMIN:
        return "training plans are ordered with an admin's key, or in the AWS console"
    return ""


def _add_chosen(context: dict[str, Any], values: FormValues, service: Service) -> None:
    """The offering that is being ordered, as it was shown, while it is remembered."""
    parsed = parse_search(context["values"])
    region, identity = (values.get(name, [""])[0].strip() for name in ("region", "offering_id"))
    offering = service.offerings.recall(region, identity)
    context["typed"] = values.get("price_usd", [""])[0]
    if parsed.request is None or offering is None:
        return
    try:
        with service.database.reading() as session:
            content = stored(session, parsed.request.recommendation_id).content
        run = run_of(content, parsed.request.candidate)
    except NotFound:
        return
    context["offers"] = [_shown(offering_json(offering, run, datetime.now(UTC)))]


def _shown(offer: Mapping[str, Any]) -> dict[str, Any]:
    """An offering for people: beside its figures its price to the cent, and its time in words."""
    price = dollars(offer["upfront_fee"], offer["currency"])
    segments = offer["segments"]
    return {
        **offer,
        "price": "" if price is None else f"{price:,}",
        "field": f"price_usd-{offer['offering_id']}",
        "start_at": segments[0]["start_at"],
        "end_at": max(each["end_at"] for each in segments),
        "gap_hours": sum(_gaps_s(segments)) / HOUR_S,
    }


def _gaps_s(segments: Sequence[Mapping[str, Any]]) -> list[float]:
    """Seconds between segments that follow each other."""
    times = [
        (datetime.fromisoformat(each["start_at"]), datetime.fromisoformat(each["end_at"]))
        for each in segments
    ]
    return [max((after[0] - before[1]).total_seconds(), 0.0) for before, after in pairwise(times)]


def _place(context: dict[str, Any], errors: Mapping[str, str]) -> None:
    """Errors at their fields; the price's is at the offering's own, where that is on the page."""
    shown = {each.name for each in context["fields"]}
    for name, detail in errors.items():
        if name == "price_usd" and context["offers"]:
            field = context["offers"][0]["field"]
            context["errors"][field] = detail
            context["labels"][field] = context["labels"][name]
        elif name in shown:
            context["errors"][name] = detail
        else:
            context["unplaced"] = (*context["unplaced"], f"{name}: {detail}")


def _refused(request: Request, context: dict[str, Any], error: AppError) -> Response:
    """The page with a refusal at the field that it names, else above the form."""
    name, detail = told_at(error.detail)
    if not name and isinstance(error, NotFound):
        name = "recommendation_id"
    if name:
        _place(context, {name: detail})
    else:
        context["refused"] = detail
    return page_response(request, "offers.html", context, error.status)
