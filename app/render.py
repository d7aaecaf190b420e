"""Rendering: templates and what they are given."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from fastapi import Request, Response
from fastapi.templating import Jinja2Templates
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from sqlalchemy.orm import Session

from advisor import __version__
from advisor.errors import AdvisorError
from advisor.model_catalog import load_models
from app import accuracy_plots, formatting, views
from app.benchmarks import ResultFilter, ResultPage
from app.compare_form import compare_fields, parse_comparison
from app.compare_form import placed as comparison_errors
from app.comparisons import compare
from app.errors import FieldError
from app.forms import MAIN, FormValues, groups, labels, parse_form, placed
from app.recommendations import Answer
from app.service import Service
from app.settings import resources

_INVALID = 422
SIDES = {
    "current": "today",
    "same_settings_on_one_p6_b200": "the same settings on one P6-B200",
    "best_on_one_p6_b200": "the best on one P6-B200",
    "best_found": "the cheapest that is found",
}
_FILTERS = ("count", "whole", "gibibytes", "usd", "percent", "duration", "seconds", "setting")


def templates() -> Jinja2Templates:
    """The templates: everything is escaped, and a missing value is an error."""
    environment = Environment(
        loader=FileSystemLoader(resources("templates")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update({name: getattr(formatting, name) for name in _FILTERS})
    environment.filters["web_link"] = views.as_web_link
    environment.globals.update(version=__version__, views=views)
    return Jinja2Templates(env=environment)


def render_form(
    request: Request, values: FormValues, service: Service, session: Session
) -> Response:
    """The form with what was typed; below it the answer, or at the fields what is wrong."""
    knowledge = service.knowledge()
    context: dict[str, Any] = {
        "values": values,
        "main": MAIN,
        "groups": groups(knowledge.catalog),
        "labels": labels(knowledge.catalog),
        "model_names": tuple(load_models()),
        "errors": {},
        "unplaced": (),
        "content": None,
    }
    if not any(text.strip() for texts in values.values() for text in texts):
        return _page(request, "index.html", context)
    parsed = parse_form(values, knowledge.catalog)
    context.update(errors=parsed.errors, unplaced=parsed.unplaced)
    if parsed.request is not None:
        try:
            context["content"] = service.recommend(parsed.request, session).content
        except AdvisorError as error:
            context["errors"] = placed([FieldError(field=error.field, detail=error.detail)])
    status = 200 if context["content"] else _INVALID
    return _page(request, "index.html", context, status)


def render_comparison(request: Request, values: FormValues, service: Service) -> Response:
    """Today's cluster in a form; below it the comparison, or at the fields what is wrong."""
    knowledge = service.knowledge()
    shown = compare_fields(knowledge.catalog)
    context: dict[str, Any] = {
        "values": values,
        "fields": shown,
        "labels": {each.name: each.label for each in shown},
        "names": SIDES,
        "model_names": tuple(load_models()),
        "errors": {},
        "unplaced": (),
        "content": None,
    }
    if not any(text.strip() for texts in values.values() for text in texts):
        return _page(request, "compare.html", context)
    parsed = parse_comparison(values, knowledge.catalog)
    context.update(errors=parsed.errors, unplaced=parsed.unplaced)
    if parsed.request is not None:
        try:
            with service.slots.one():
                context["content"] = compare(parsed.request, knowledge)
        except AdvisorError as error:
            wrong = FieldError(field=error.field, detail=error.detail)
            context["errors"] = comparison_errors([wrong])
    return _page(request, "compare.html", context, 200 if context["content"] else _INVALID)


def render_answer(request: Request, given: Answer) -> Response:
    """A stored answer as a page of its own."""
    return _page(request, "recommendation.html", {"content": given.content})


def render_results(
    request: Request, wanted: ResultFilter, page: ResultPage, choices: Mapping[str, list[str]]
) -> Response:
    """Stored results as a table with filters."""
    query = {name: value for name, value in request.query_params.items() if value}
    context = {
        "page": page,
        "wanted": wanted,
        "choices": choices,
        "query": query,
        "previous": _address(query, wanted.offset - wanted.limit) if wanted.offset else None,
        "next": _address(query, wanted.offset + wanted.limit)
        if wanted.offset + wanted.limit < page.total
        else None,
    }
    return _page(request, "results.html", context)


def render_accuracy(
    request: Request, report: Mapping[str, Any], wanted: Mapping[str, str]
) -> Response:
    """The accuracy report: plots of the rows that are wanted, tables of all."""
    drawn = (accuracy_plots.scatter(report["rows"], name, "gpu") for name in report["worst"])
    context = {
        "report": report,
        "wanted": wanted,
        "plots": [plot for plot in drawn if plot is not None],
        "reliable": accuracy_plots.reliability_points(report["reliability"]),
        "named": {
            name: [{**row, "name": row[name]} for row in rows]
            for name, rows in report["groups"].items()
        },
    }
    return _page(request, "accuracy.html", context)


def _address(query: Mapping[str, str], offset: int) -> str:
    return "/results?" + urlencode({**query, "offset": str(max(offset, 0))})


def _page(request: Request, name: str, context: dict[str, Any], status: int = 200) -> Response:
    found: Jinja2Templates = request.app.state.templates
    return found.TemplateResponse(
        request, name, context, status_code=status, headers={"Vary": "Accept"}
    )
