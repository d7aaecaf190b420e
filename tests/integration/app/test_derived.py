"""Derived values: what an answer took for fields left open, and why; none for those filled in."""

from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.derived import derived_values

MODEL = {"model": {"name": "llama-3.1-8b"}}


def content_of(client: TestClient, **fields: Any) -> dict[str, Any]:
    found: dict[str, Any] = client.post("/recommend", json={**MODEL, **fields}).json()
    return found


def test_what_was_left_open_has_a_value_and_a_reason(client: TestClient) -> None:
    content = content_of(client, num_tokens=10**11)
    found = derived_values(content)
    assert found["seq_len"].value == f"{content['workload']['seq_len']:,}"
    assert found["seq_len"].reason.startswith("our convention")
    assert found["micro_batch"].value == str(content["best"]["settings"]["micro_batch"])
    assert found["instances"].value == content["best"]["settings"]["instance_type"]
    assert all(each.value for each in found.values())


@pytest.mark.parametrize(
    ("name", "value"),
    [("num_tokens", 10**11), ("seq_len", 4096), ("global_batch_tokens", 2**20)],
)
def test_what_was_asked_for_is_not_derived(client: TestClient, name: str, value: int) -> None:
    asked = {"num_tokens": 10**11, name: value}
    assert name not in derived_values(content_of(client, **asked))


def test_an_own_rate_is_not_derived(client: TestClient) -> None:
    own = {"usd_per_instance_hour": 90}
    found = derived_values(content_of(client, num_tokens=10**11, pricing=own))
    assert "usd_per_instance_hour" not in found


def test_where_nothing_fits_only_the_rules_are_told(client: TestClient) -> None:
    content = content_of(client, num_tokens=10**12, budget_usd=10)
    assert content["best"] is None
    assert set(derived_values(content)) <= {"seq_len", "num_tokens", "global_batch_tokens"}
