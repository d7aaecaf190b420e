"""The forms of training plans on sale: the search for a run, and the order that confirms a price.

The order is sent with the search it came from, so that nothing is lost when it is refused.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from app.errors import FieldError
from app.forms import FormField, FormValues, Parsed, parse_fields
from app.plan_schemas import PlanPurchaseOrder, PlanSearch

_SEARCH = (
    FormField(
        name="recommendation_id",
        label="Recommendation",
        kind="text",
        hint="The id of an answer: its address ends with it.",
    ),
    FormField(name="candidate", label="Settings", kind="whole", blank="0: the best"),
    FormField(
        name="start_after",
        label="Start after",
        kind="text",
        blank="now",
        hint="A time in UTC, such as 2026-12-08 or 2026-12-08 14:30.",
    ),
    FormField(
        name="max_wait_hours", label="Hours to wait at most", kind="number", blank="no limit"
    ),
    FormField(
        name="duration_hours",
        label="Hours to reserve",
        kind="number",
        blank="what the run needs",
        hint="AWS sells whole days: it is rounded up.",
    ),
    FormField(name="region", label="Region", kind="text", blank="the service’s own"),
)
_ORDER = (
    FormField(name="offering_id", label="Offering", kind="text"),
    FormField(name="price_usd", label="Price in US dollars", kind="text"),
)
_ORDERED = ("offering_id", "price_usd", "region", "recommendation_id")
# How people write dollars: $4,800.00 or 4 800.00 USD.
_AROUND_AMOUNT = re.compile(r"[$,\s]|USD", re.IGNORECASE)


def search_fields(candidates: Sequence[tuple[str, str]] = ()) -> tuple[FormField, ...]:
    """The fields of the search, in their order.

    candidates: (number, words) of the recommendation's own, once it is known.
    """
    if not candidates:
        return _SEARCH
    choices = tuple(candidates)
    return tuple(
        replace(each, kind="select", choices=choices) if each.name == "candidate" else each
        for each in _SEARCH
    )


def labels() -> dict[str, str]:
    """What the forms call each field."""
    return {each.name: each.label for each in (*_SEARCH, *_ORDER)}


def parse_search(values: Mapping[str, list[str]]) -> Parsed[PlanSearch]:
    """The search that the text of a form stands for, or what is wrong with it, by field."""
    fields = {each.name: each for each in _SEARCH}
    parsed = parse_fields(values, fields, PlanSearch, _timed, placed)
    text = "".join(values.get("start_after", ())).strip()
    if text and _time(text) is None and not parsed.unplaced:
        wrong = "must be a time in UTC such as 2026-12-08 or 2026-12-08 14:30"
        return Parsed(errors={**parsed.errors, "start_after": wrong})
    return parsed


def parse_order(values: Mapping[str, list[str]]) -> Parsed[PlanPurchaseOrder]:
    """The order that the text of a form stands for, or what is wrong with it, by field."""
    fields = {each.name: each for each in (*_SEARCH, *_ORDER)}
    return parse_fields(values, fields, PlanPurchaseOrder, _priced, placed)


def searched(values: FormValues) -> FormValues:
    """What of a sent order is the search that it came from."""
    names = {each.name for each in _SEARCH}
    return {name: texts for name, texts in values.items() if name in names}


def placed(errors: Sequence[FieldError]) -> dict[str, str]:
    """Errors of a request under the names of the form's fields; the first of each is kept."""
    found: dict[str, str] = {}
    for error in errors:
        found.setdefault(error.field.partition(".")[0], error.detail)
    return found


def told_at(detail: str) -> tuple[str, str]:
    """The field that a refusal names before a colon, and the rest; "" where it names none."""
    name, colon, rest = detail.partition(": ")
    return (name, rest) if colon and name in labels() else ("", detail)


def _time(text: str) -> datetime | None:
    """A time as people write it; without a zone it is one in UTC. None for any other text."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def _timed(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The request's own form: a time with its zone."""
    at = _time(raw.get("start_after", ""))
    return {**raw, "start_after": at.isoformat()} if at is not None else dict(raw)


def _priced(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The order alone, its amount without what people write around the figures."""
    request = {name: raw[name] for name in _ORDERED if name in raw}
    if "price_usd" in request:
        request["price_usd"] = _AROUND_AMOUNT.sub("", request["price_usd"])
    return request
