"""Examples of /openapi.json that AWS has a part in, and what its routes refuse."""

from typing import Any

import pytest
from stand_in import Account

from app.openapi_examples import BODIES, QUERIES

UNKNOWN = "0" * 24


def example(path: str, name: str, **real: Any) -> dict[str, Any]:
    """An example with what is really there in the place of what is made up."""
    value = dict(BODIES["POST", path][name]["value"])
    assert set(real) <= set(value)
    return {**value, **real}


@pytest.mark.parametrize(("path", "status"), [("/jobs/preview", 200), ("/jobs", 202)])
def test_the_job_on_sagemaker_is_taken(account: Account, path: str, status: int) -> None:
    plan, identity = account.plan.arn, account.recommend()
    body = example(path, "sagemaker", recommendation_id=identity, training_plan_arn=plan)
    response = account.client.post(path, json=body)
    assert response.status_code == status, response.text


def test_plans_are_listed_searched_and_ordered(account: Account) -> None:
    listed = account.client.get("/plans", params=dict(QUERIES["GET", "/plans"]))  # type: ignore[arg-type]
    assert listed.json()["plans"]
    identity = account.recommend()
    for name in BODIES["POST", "/plans/search"]:
        wanted = example("/plans/search", name, recommendation_id=identity)
        found = account.client.post("/plans/search", json=wanted)
        assert found.status_code == 200, found.text
    offering = found.json()["offerings"][0]
    order = example(
        "/plans",
        "offering",
        offering_id=offering["offering_id"],
        recommendation_id=identity,
        price_usd=offering["upfront_fee"],
    )
    bought = account.client.post("/plans", json=order)
    assert bought.status_code == 202, bought.text


def test_what_their_routes_refuse_is_documented(account: Account) -> None:
    document = account.client.get("/openapi.json").json()
    order = example("/plans", "offering", recommendation_id=UNKNOWN)
    wanted = example("/plans/search", "default", recommendation_id=UNKNOWN)
    for path, status, body in (
        ("/plans/search", 404, wanted),
        ("/plans/search", 422, {}),
        ("/plans", 404, order),
        ("/plans", 409, {**order, "recommendation_id": account.recommend()}),
        ("/plans", 422, {}),
    ):
        assert account.client.post(path, json=body).status_code == status
        assert str(status) in document["paths"][path]["post"]["responses"]
    assert account.client.get("/plans?region=mars").status_code == 422
    assert "422" in document["paths"]["/plans"]["get"]["responses"]
