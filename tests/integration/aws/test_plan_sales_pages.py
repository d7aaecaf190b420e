"""Pages that sell training plans: what AWS offers for a run, and the order with its price."""

import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from httpx import Response
from stand_in import Account

from app.access.guard import Guard
from app.access.keys import create_key
from app.access.roles import Role
from app.aws.fake.demo import REGION
from app.aws.fake.server import Trouble

HTML = {"Accept": "text/html"}
OFFERS = "/plans/offers"
G6E = {
    "model": {"size_b": 1},
    "num_tokens": 10**7,
    "instances": ["g6e"],
    "pricing": {"kind": "on_demand"},
}


def offers(account: Account, **query: str) -> Response:
    """GET /plans/offers."""
    found: Response = account.client.get(OFFERS, params=query, headers=HTML)
    return found


def fields_of_order(page: str) -> dict[str, str]:
    """What the first form that orders would send, without a price."""
    form = page[page.index('<form method="post" action="/plans/offers"') :]
    form = form[: form.index("</form>")]
    return dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)">', form))


def send(account: Account, **fields: str) -> Response:
    """POST /plans/offers, as a browser does."""
    found: Response = account.client.post(OFFERS, data=fields, headers=HTML, follow_redirects=False)
    return found


def purchases(account: Account) -> list[dict[str, Any]]:
    """What was ordered."""
    found: list[dict[str, Any]] = account.client.get("/plans").json()["purchases"]
    return found


def set_settings(account: Account, **values: Any) -> None:
    """The service with other settings, as after a restart."""
    app: Any = account.client.app
    settings = replace(account.service.settings, **values)
    app.state.service = account.service = replace(account.service, settings=settings)


def test_what_aws_sells_is_shown_with_its_price_and_what_it_means(account: Account) -> None:
    identity = account.recommend()
    told = account.client.post("/plans/search", json={"recommendation_id": identity}).json()
    page = offers(account, recommendation_id=identity)
    assert page.status_code == 200
    assert f"{len(told['offerings'])} offerings in {REGION}" in page.text
    for each in told["offerings"]:
        assert each["offering_id"] in page.text
        assert f"{float(each['upfront_fee']):,.2f} US dollars" in page.text
        assert f"${each['usd_per_usable_hour']:,.2f}" in page.text
        assert each["ends_at"][:16].replace("T", " ") in page.text
    assert "as estimated" in page.text
    assert 'name="price_usd"' in page.text
    assert "style=" not in page.text


def test_the_search_narrows_what_is_shown_and_keeps_its_text(account: Account) -> None:
    page = offers(
        account,
        recommendation_id=account.recommend(),
        candidate="1",
        max_wait_hours="0",
        duration_hours="30",
        start_after="2000-01-01",
        region=REGION,
    )
    assert page.status_code == 200
    for text in ('value="0"', 'value="30"', 'value="2000-01-01"', '<option value="1" selected>'):
        assert text in page.text
    assert "for 48.0 hours" in page.text


def test_nothing_on_sale_is_said(account: Account) -> None:
    page = offers(account, recommendation_id=account.recommend(), region="eu-west-1")
    assert "0 offerings in eu-west-1" in page.text
    assert "AWS has none for this now" in page.text


def test_without_a_recommendation_there_is_the_form_alone(account: Account) -> None:
    page = offers(account)
    assert page.status_code == 200
    assert 'id="recommendation_id"' in page.text
    assert "offerings" not in page.text
    assert 'action="/plans/offers"' in account.client.get("/plans", headers=HTML).text


@pytest.mark.parametrize(
    ("query", "status", "field"),
    [
        ({"recommendation_id": "0" * 24}, 404, "recommendation_id"),
        ({"recommendation_id": "<b>"}, 404, "recommendation_id"),
        ({"region": REGION}, 422, "recommendation_id"),
        ({"candidate": "20"}, 404, "candidate"),
        ({"candidate": "best"}, 422, "candidate"),
        ({"start_after": "soon"}, 422, "start_after"),
        ({"start_after": "2100-01-01"}, 409, "start_after"),
        ({"duration_hours": "-1"}, 422, "duration_hours"),
        ({"region": "moon"}, 422, "region"),
    ],
)
def test_what_is_wrong_is_told_at_its_field_and_the_form_stays(
    account: Account, query: dict[str, str], status: int, field: str
) -> None:
    if field != "recommendation_id":
        query = {"recommendation_id": account.recommend(), **query}
    page = offers(account, **query)
    assert page.status_code == status
    assert f'id="{field}-error"' in page.text
    assert 'role="alert"' in page.text
    assert "<b>" not in page.text
    for name, text in query.items():
        if name not in ("candidate", "recommendation_id"):
            assert f'name="{name}" value="{text}"' in page.text


def test_what_is_not_sold_is_told_above_the_form(account: Account) -> None:
    identity = account.client.post("/recommend", json=G6E).json()["id"]
    page = offers(account, recommendation_id=identity)
    assert page.status_code == 409
    assert "is not sold in training plans" in page.text
    assert f'value="{identity}"' in page.text


def test_a_bad_day_of_aws_is_told_above_the_form(account: Account) -> None:
    trouble = Trouble(
        operation="SearchTrainingPlanOfferings", code="AccessDeniedException", status=400
    )
    account.fake.trouble.append(trouble)
    page = offers(account, recommendation_id=account.recommend())
    assert page.status_code == 409
    assert "does not permit to search training plans" in page.text
    assert 'id="recommendation_id"' in page.text


def test_the_price_is_typed_back_and_the_worker_buys_once(account: Account) -> None:
    page = offers(account, recommendation_id=account.recommend(), max_wait_hours="72")
    order = fields_of_order(page.text)
    assert order["max_wait_hours"] == "72"
    (price,) = set(re.findall(r"<strong>([\d,.]+) US dollars</strong>", page.text))

    refused = send(account, **order, price_usd="1,000.00")
    assert refused.status_code == 409
    field = f"price_usd-{order['offering_id']}"
    assert f'id="{field}-error"' in refused.text
    assert f'id="{field}" name="price_usd" value="1,000.00"' in refused.text
    assert f'href="#{field}"' in refused.text
    assert fields_of_order(refused.text) == order
    assert purchases(account) == []

    for _ in range(2):
        done = send(account, **order, price_usd=f"${price}")
        assert (done.status_code, done.headers["location"]) == (303, "/plans")
    account.work()
    (bought,) = purchases(account)
    assert (bought["offering_id"], bought["status"]) == (order["offering_id"], "bought")
    assert len(account.fake.plans.plans) == 2
    assert bought["name"] in account.client.get("/plans", headers=HTML).text
    again = send(account, **order, price_usd=price)
    assert again.status_code == 409
    assert "is bought already" in again.text


@pytest.mark.parametrize(
    ("change", "status", "told"),
    [
        ({"price_usd": ""}, 422, "is required"),
        ({"price_usd": "all"}, 422, "must look like"),
        ({"offering_id": "tpo-unknown"}, 409, "no such offering"),
        ({"offering_id": "<b>"}, 422, "offering_id: must look like"),
        ({"recommendation_id": "0" * 24}, 409, "not 1"),
    ],
)
def test_an_order_that_cannot_be_read_orders_nothing(
    account: Account, change: dict[str, str], status: int, told: str
) -> None:
    page = offers(account, recommendation_id=account.recommend())
    order = {**fields_of_order(page.text), "price_usd": "1", **change}
    refused = send(account, **order)
    assert refused.status_code == status
    assert told in refused.text
    assert "<b>" not in refused.text
    assert f'value="{order["recommendation_id"]}"' in refused.text
    assert purchases(account) == []


def test_where_buying_is_off_it_says_how_to_turn_it_on(account: Account) -> None:
    identity = account.recommend()
    order = fields_of_order(offers(account, recommendation_id=identity).text)
    set_settings(account, allow_plan_purchase=False)
    page = offers(account, recommendation_id=identity).text
    assert "SHARDWISE_ALLOW_PLAN_PURCHASE=true" in page
    assert "AWS console" in page
    assert "price_usd" not in page
    refused = send(account, **order, price_usd="1")
    assert refused.status_code == 409
    assert "SHARDWISE_ALLOW_PLAN_PURCHASE=true" in refused.text
    assert purchases(account) == []


def test_only_an_admin_orders(account: Account) -> None:
    app: Any = account.client.app
    identity = account.recommend()
    order = fields_of_order(offers(account, recommendation_id=identity).text)
    database, now = account.service.database, datetime.now(UTC)
    with database.writing() as session:
        keys = {
            role: create_key(session, role.label, role, now).text
            for role in (Role.SUBMITTER, Role.ADMIN)
        }
    settings = replace(account.service.settings, host="192.0.2.1", secret_key="s" * 32)
    app.state.guard = Guard(settings, database)
    seen, sent = {}, {}
    for role, key in keys.items():
        headers = {**HTML, "Authorization": f"Bearer {key}"}
        query = {"recommendation_id": identity}
        seen[role] = account.client.get(OFFERS, params=query, headers=headers).text
        sent[role] = account.client.post(
            OFFERS, data={**order, "price_usd": "1"}, headers=headers
        ).status_code
    assert "price_usd" not in seen[Role.SUBMITTER]
    assert "admin" in seen[Role.SUBMITTER]
    assert "price_usd" in seen[Role.ADMIN]
    assert sent == {Role.SUBMITTER: 403, Role.ADMIN: 409}


def test_the_pages_are_in_japanese_too(account: Account) -> None:
    japanese = {**HTML, "Accept-Language": "ja"}
    query = {"recommendation_id": account.recommend()}
    for path in (OFFERS, "/plans", "/jobs/new"):
        page = account.client.get(path, params=query if path != "/plans" else {}, headers=japanese)
        assert page.status_code == 200
        assert 'lang="ja"' in page.text
