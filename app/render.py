"""Rendering: templates and what they are given."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic
from urllib.parse import urlencode

from fastapi import Request, Response
from fastapi.templating import Jinja2Templates
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from sqlalchemy.orm import Session

from advisor import __version__
from advisor.errors import AdvisorError
from advisor.explanation import as_written, with_values
from advisor.model_catalog import load_models
from app import accuracy_plots, formatting, views
from app.access.guard import csrf_field, shown_actor
from app.access.next_page import shown_path
from app.benchmarks import ResultFilter, ResultPage
from app.compare_form import compare_fields, parse_comparison
from app.compare_form import placed as comparison_errors
from app.comparisons import compare
from app.derived import derived_values
from app.errors import FieldError
from app.explained import explained
from app.forms import MAIN, Asked, FormValues, Parsed, groups, labels, parse_form, placed
from app.knowledge import Knowledge
from app.recommendations import Answer
from app.service import Service
from app.settings import Settings, resources
from app.shared_address import form_values, page_address
from app.translations.catalogue import gettext, ngettext, told
from app.translations.language import LANGUAGE, NAMES
from app.what_if_schemas import CompareRequest

_INVALID = 422
SIDES = {
    "current": "the cluster of today",
    "same_settings_on_one_p6_b200": "the same settings on one P6-B200",
    "best_on_one_p6_b200": "the best on one P6-B200",
    "best_found": "the cheapest that is found",
}
_FILTERS = ("count", "whole", "gibibytes", "usd", "percent", "duration", "seconds", "setting")


def templates(settings: Settings) -> Jinja2Templates:
    """The templates: everything is escaped, and a missing value is an error."""
    environment = Environment(
        loader=FileSystemLoader(resources("templates")),
        autoescape=True,
        undefined=StrictUndefined,
        extensions=["jinja2.ext.i18n"],
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["ext.i18n.trimmed"] = True
    environment.install_gettext_callables(gettext, ngettext, newstyle=True)  # type: ignore[attr-defined]
    environment.filters.update({name: getattr(formatting, name) for name in _FILTERS})
    environment.filters["told"] = told
    environment.filters["web_link"] = views.as_web_link
    environment.globals.update(
        version=__version__,
        views=views,
        csrf_field=csrf_field,
        shown_actor=shown_actor,
        is_demo=bool(settings.aws_endpoint_url),
        has_aws=settings.aws_enabled,
        as_written=as_written,
        with_values=with_values,
        language=LANGUAGE.get,
        languages=NAMES,
        path_of=shown_path,
    )
    return Jinja2Templates(env=environment)


def render_form(
    request: Request, values: FormValues, service: Service, session: Session
) -> Response:
    """The form with what was typed; below it the answer, or at the fields what is wrong."""
    catalog = service.knowledge().catalog
    question = _Question(
        page="index.html",
        parse=partial(parse_form, catalog=catalog),
        answer=lambda asked: service.recommend(asked, session).content,
        place=placed,
        shown={"main": MAIN, "groups": groups(catalog), "labels": labels(catalog), "derived": {}},
        around=lambda content: {
            **_answer_context(content, service.knowledge()),
            "derived": derived_values(content),
        },
    )
    return _answered(request, values, question)


def render_comparison(request: Request, values: FormValues, service: Service) -> Response:
    """Today's cluster in a form; below it the comparison, or at the fields what is wrong."""
    knowledge = service.knowledge()
    fields = compare_fields(knowledge.catalog)

    def answer(asked: CompareRequest) -> dict[str, Any]:
        with service.slots.one():
            return compare(asked, knowledge)

    question = _Question(
        page="compare.html",
        parse=partial(parse_comparison, catalog=knowledge.catalog),
        answer=answer,
        place=comparison_errors,
        shown={
            "fields": fields,
            "labels": {each.name: each.label for each in fields},
            "names": SIDES,
        },
    )
    return _answered(request, values, question)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question(Generic[Asked]):
    """A form and what answers it. shown: what its page needs beside values, errors and answer.

    around: what the page shows beside an answer, from its content.
    """

    page: str
    parse: Callable[[FormValues], Parsed[Asked]]
    answer: Callable[[Asked], dict[str, Any]]
    place: Callable[[list[FieldError]], dict[str, str]]
    shown: Mapping[str, Any]
    around: Callable[[dict[str, Any]], dict[str, Any]] = lambda _content: {}


def _answered(request: Request, values: FormValues, question: _Question[Asked]) -> Response:
    context: dict[str, Any] = {
        **question.shown,
        "values": values,
        "model_names": tuple(load_models()),
        "errors": {},
        "unplaced": (),
        "content": None,
    }
    if not any(text.strip() for texts in values.values() for text in texts):
        return page_response(request, question.page, context)
    parsed = question.parse(values)
    context.update(errors=parsed.errors, unplaced=parsed.unplaced)
    if parsed.request is not None:
        try:
            context["content"] = question.answer(parsed.request)
            context.update(question.around(context["content"]))
        except AdvisorError as error:
            wrong = FieldError(field=error.field, detail=error.detail)
            context["errors"] = question.place([wrong])
    return page_response(request, question.page, context, 200 if context["content"] else _INVALID)


def render_answer(request: Request, given: Answer, knowledge: Knowledge | None) -> Response:
    """A stored answer as a page of its own; knowledge: what it was made with, where it is there."""
    context = {"content": given.content, **_answer_context(given.content, knowledge)}
    return page_response(request, "recommendation.html", context)


def _answer_context(content: Mapping[str, Any], knowledge: Knowledge | None) -> dict[str, Any]:
    """The address that asks the same again, and the formula behind each number."""
    return {
        "shared": page_address(form_values(content["request"])),
        "explained": {} if knowledge is None else explained(content, knowledge),
    }


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
    return page_response(request, "results.html", context)


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
    return page_response(request, "accuracy.html", context)


def _address(query: Mapping[str, str], offset: int) -> str:
    return "/results?" + urlencode({**query, "offset": str(max(offset, 0))})


def page_response(
    request: Request, name: str, context: dict[str, Any], status: int = 200
) -> Response:
    """A template as a page."""
    found: Jinja2Templates = request.app.state.templates
    return found.TemplateResponse(request, name, context, status_code=status)
