"""The page for programs: a question as code to copy, and every route with its role."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from fastapi import Request, Response

from advisor.catalog import load_catalog
from advisor.errors import AdvisorError
from app.access.guard import PUBLIC, ROLES, current_guard
from app.errors import FieldError
from app.forms import FormValues, labels, parse_form, placed
from app.recommendations import answer, stored
from app.render import page_response
from app.request_examples import RequestExamples, request_body, request_examples
from app.service import Service

STORED = "recommendation_id"
EXAMPLE: Mapping[str, Any] = {"model": {"name": "llama-3.1-8b"}, "budget_usd": 20000}
_INVALID = 422


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRoute:
    """One route as the page lists it. role: the least that a key needs; "" where none is needed."""

    method: str
    path: str
    text: str
    role: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """The question on the page: its own page, and its body or what is wrong with it."""

    address: str
    body: Mapping[str, Any] | None = None
    errors: Mapping[str, str] = field(default_factory=dict)
    unplaced: tuple[str, ...] = ()


def render_api(request: Request, values: FormValues, service: Service) -> Response:
    """The page for the question in its address; for an example without one.

    Raises NotFound for a recommendation that is not stored.
    """
    asked = _asked(values, service)
    context = {
        "asked": asked,
        "is_example": not values,
        "examples": None if asked.body is None else _examples(request, asked.body, service),
        "labels": labels(load_catalog()),
        "needs_key": current_guard(request).is_needed,
        "routes": api_routes(request.app.openapi()),
    }
    return page_response(request, "api.html", context, _INVALID if asked.body is None else 200)


def api_routes(document: Mapping[str, Any]) -> list[ApiRoute]:
    """The routes of an OpenAPI document in its order."""
    return [
        ApiRoute(
            method=method.upper(),
            path=path,
            text=operation.get("description", operation["summary"]),
            role=_role(method.upper(), path),
        )
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    ]


def _role(method: str, path: str) -> str:
    return "" if (method, path) in PUBLIC else ROLES[method, path].label


def _asked(values: FormValues, service: Service) -> _Asked:
    if not values:
        return _Asked(body=EXAMPLE, address="/")
    if set(values) == {STORED}:
        identity = values[STORED][0]
        with service.database.reading() as session:
            content = stored(session, identity).content
        return _Asked(body=content["request"], address=f"/recommendations/{identity}")
    query = urlencode([(name, text) for name, texts in values.items() for text in texts])
    parsed = parse_form(values, load_catalog())
    if parsed.request is None:
        return _Asked(address=f"/?{query}", errors=parsed.errors, unplaced=parsed.unplaced)
    try:
        # Most contradictions are found by the search itself; what it finds is not kept.
        with service.slots.one():
            answer(parsed.request, service.knowledge())
    except AdvisorError as error:
        wrong = placed([FieldError(field=error.field, detail=error.detail)])
        return _Asked(address=f"/?{query}", errors=wrong)
    return _Asked(body=request_body(parsed.request), address=f"/?{query}")


def _examples(request: Request, body: Mapping[str, Any], service: Service) -> RequestExamples:
    """With the address under which people reach the service: behind a proxy, the one it is told."""
    service_url = service.settings.public_url or str(request.base_url).rstrip("/")
    return request_examples(body, service_url, needs_key=current_guard(request).is_needed)
