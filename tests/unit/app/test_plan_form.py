"""The forms of training plans on sale: times and prices as people write them, errors in place."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from app.plan_form import parse_order, parse_search, search_fields, searched, told_at
from app.plan_schemas import PlanPurchaseOrder, PlanSearch

ORDER = {"offering_id": "tpo-1", "region": "us-west-2", "recommendation_id": "r"}


def search(**texts: str) -> PlanSearch:
    form = parse_search({name: [text] for name, text in texts.items()})
    assert form.request is not None, form
    return form.request


def order(**texts: str) -> PlanPurchaseOrder:
    form = parse_order({name: [text] for name, text in {**ORDER, **texts}.items()})
    assert form.request is not None, form
    return form.request


def test_every_field_reaches_the_request() -> None:
    texts = {
        "recommendation_id": "r",
        "candidate": "2",
        "start_after": "2026-12-08 14:30",
        "max_wait_hours": "72",
        "duration_hours": "1k",
        "region": "us-west-2",
    }
    assert [each.name for each in search_fields()] == list(texts)
    assert search(**texts) == PlanSearch(
        recommendation_id="r",
        candidate=2,
        start_after=datetime(2026, 12, 8, 14, 30, tzinfo=UTC),
        max_wait_hours=72,
        duration_hours=1000,
        region="us-west-2",
    )


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2026-12-08", datetime(2026, 12, 8, tzinfo=UTC)),
        ("2026-12-08T14:30Z", datetime(2026, 12, 8, 14, 30, tzinfo=UTC)),
        (
            "2026-12-08 14:30+09:00",
            datetime(2026, 12, 8, 14, 30, tzinfo=timezone(timedelta(hours=9))),
        ),
    ],
)
def test_a_time_is_in_utc_unless_it_names_its_zone(text: str, at: datetime) -> None:
    assert search(recommendation_id="r", start_after=text).start_after == at


@pytest.mark.parametrize("text", ["soon", "5", "2026-13-01", "1765000000"])
def test_what_is_no_time_is_told_at_the_field(text: str) -> None:
    form = parse_search({"recommendation_id": ["r"], "start_after": [text], "candidate": ["x"]})
    assert set(form.errors) == {"start_after", "candidate"}
    assert "2026-12-08 14:30" in form.errors["start_after"]


def test_a_search_names_a_recommendation() -> None:
    assert parse_search({"region": ["us-west-2"]}).errors == {"recommendation_id": "is required"}
    assert parse_search({"recommendation_id": ["r"], "other": ["1"]}).unplaced


@pytest.mark.parametrize("text", ["4744.32", "$4,744.32", " 4 744.32 USD "])
def test_a_price_as_people_write_it(text: str) -> None:
    assert order(price_usd=text).price_usd == "4744.32"


@pytest.mark.parametrize("text", ["-4744.32", "4.744,32.1", "all of it", "4744.32 EUR", "٤"])
def test_another_text_is_no_price(text: str) -> None:
    form = parse_order({**{name: [each] for name, each in ORDER.items()}, "price_usd": [text]})
    assert list(form.errors) == ["price_usd"]


def test_an_order_comes_with_its_search() -> None:
    texts = {**ORDER, "candidate": "1", "max_wait_hours": "72", "price_usd": "1"}
    values = {name: [text] for name, text in texts.items()}
    assert order(**texts) == PlanPurchaseOrder(**ORDER, price_usd="1")
    assert set(searched(values)) == {
        "recommendation_id",
        "region",
        "candidate",
        "max_wait_hours",
    }


def test_a_refusal_is_told_at_the_field_that_it_names() -> None:
    assert told_at("price_usd: it costs 2 USD") == ("price_usd", "it costs 2 USD")
    assert told_at("AWS refused: no") == ("", "AWS refused: no")
    assert told_at("no colon") == ("", "no colon")


def test_the_candidates_of_a_recommendation_are_choices() -> None:
    fields = {each.name: each for each in search_fields([("0", "best: 1 × p5")])}
    assert fields["candidate"].choices == (("0", "best: 1 × p5"),)
    assert fields["candidate"].kind == "select"
