"""POST /recommend and GET /recommendations/{id}."""

import json
from typing import Any

import pytest
from fastapi.testclient import TestClient

from advisor.model_catalog import load_models
from app.main import create_app
from app.settings import Settings

QUESTION = {"model": {"name": "llama-3.1-8b"}, "budget_usd": 500}


def test_an_answer_is_kept_with_the_same_bytes(any_url: str) -> None:
    with TestClient(create_app(Settings(database_url=any_url))) as client:
        first = client.post("/recommend", json=QUESTION)
        assert first.status_code == 200
        assert first.json()["best"]["verdict"] in ("fits", "edge")
        kept = client.get(f"/recommendations/{first.json()['id']}")
        assert kept.status_code == 200
        assert kept.content == first.content
        assert client.post("/recommend", json=QUESTION).content == first.content


@pytest.mark.parametrize(
    ("body", "field", "said"),
    [
        ({"model": {"name": "lama-3.1-8b"}}, "model.name", "llama-3.1-8b"),
        ({"model": {"size_b": -1}}, "model.size_b", "greater than 0"),
        ({"model": {"size_b": 5000}}, "model.size_b", "72"),
        ({"model": {"config": {}}}, "model.config.model_type", "missing"),
        ({"model": {"config": {"model_type": "mixtral"}}}, "model.config.model_type", "mixture"),
        ({**QUESTION, "instances": ["p9.48xlarge"]}, "instances.0", "p9.48xlarge"),
        ({**QUESTION, "region": "mars"}, "region", "mars"),
        ({**QUESTION, "seq_len": 4096, "global_batch_tokens": 100}, "global_batch_tokens", "less"),
        ({**QUESTION, "instances": ["p4d"], "precision": "fp8"}, "precision", "fp8"),
        ({**QUESTION, "instances": ["g6e"]}, "pricing", "training plans"),
        ({**QUESTION, "objective": "fastest"}, "num_tokens", "objective"),
        ({**QUESTION, "budget_usd": None, "objective": "most_tokens"}, "objective", "budget_usd"),
    ],
)
def test_what_cannot_be_answered_is_told_at_the_field(
    client: TestClient, body: dict[str, Any], field: str, said: str
) -> None:
    response = client.post("/recommend", json=body)
    if body.get("objective") == "fastest" and response.status_code == 200:
        # Without num_tokens the stated rule gives them.
        assert response.json()["workload"]["num_tokens"]
        return
    assert response.status_code == 422
    error = response.json()
    assert error["field"] == field
    assert said in error["detail"]
    assert error["request_id"] == response.headers["x-request-id"]


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"{", 422),
        (b"", 422),
        (b"null", 422),
        (b"[" * 200_000, 422),
        (b'{"model": {"name": "llama-3.1-8b"}, "budget_usd": NaN}', 422),
        (b'{"model": {"size_b": 1e999}}', 422),
        (b'{"model": {"name": "\\ud800"}}', 422),
        (b'{"model": {"config": {"a": "\\u0000"}}}', 422),
        (b'{"model": {"name": "' + b"x" * 2_000_000 + b'"}}', 413),
        (b"\xff\xfe", 422),
    ],
)
def test_broken_bodies_are_refused(client: TestClient, content: bytes, status: int) -> None:
    response = client.post(
        "/recommend", content=content, headers={"content-type": "application/json"}
    )
    assert response.status_code == status
    assert len(response.content) < 3000
    assert set(response.json()) >= {"error", "detail", "request_id"}


def test_a_body_without_a_length_is_limited_too(client: TestClient) -> None:
    def chunks() -> Any:
        for _ in range(40):
            yield b" " * 50_000

    response = client.post(
        "/recommend", content=chunks(), headers={"content-type": "application/json"}
    )
    assert response.status_code == 413


def test_another_content_type_is_explained(client: TestClient) -> None:
    response = client.post("/recommend", content=json.dumps(QUESTION))
    assert response.status_code == 422
    assert "Content-Type: application/json" in response.json()["detail"]


@pytest.mark.parametrize("identity", ["0" * 24, "nope", "x" * 5000, "%00", "..%2f..%2fetc"])
def test_an_unknown_answer_is_404(client: TestClient, identity: str) -> None:
    assert client.get(f"/recommendations/{identity}").status_code == 404


def test_unknown_paths_and_methods_have_the_same_shape(client: TestClient) -> None:
    assert client.get("/nowhere").json()["error"] == "not_found"
    response = client.delete("/recommend")
    assert response.status_code == 405
    assert response.json()["error"] == "method_not_allowed"
    assert response.headers["allow"] == "POST"


def test_the_request_id_of_a_client_is_kept_if_usable(client: TestClient) -> None:
    given = client.get("/healthz", headers={"x-request-id": "abc-1"})
    assert given.headers["x-request-id"] == "abc-1"
    odd = client.get("/healthz", headers={"x-request-id": "a b\t<script>"})
    assert "script" not in odd.headers["x-request-id"]


def test_the_catalogue_is_listed(client: TestClient) -> None:
    models = client.get("/catalog/models").json()["models"]
    assert [each["name"] for each in models] == list(load_models())
    instances = client.get("/catalog/instances").json()["instances"]
    assert all(each["source"] and each["gpu"]["memory_bytes"] for each in instances)


def test_the_description_loads_nothing_from_elsewhere(client: TestClient) -> None:
    assert client.get("/openapi.json").status_code == 200
    assert client.get("/docs").status_code == 404
    assert client.get("/redoc").status_code == 404
