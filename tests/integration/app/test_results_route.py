"""GET and POST /results."""

from typing import Any

import pytest
from fastapi.testclient import TestClient

from advisor.result import RESULT_COLUMNS, load_shipped_results
from app.main import create_app
from app.settings import Settings

ROW: dict[str, Any] = {
    "id": "mine-1",
    "source_url": "https://example.org/run/1",
    "commit_or_date": "2026-11-30",
    "framework": "fsdp2",
    "gpu": "H100-80GB-SXM",
    "gpus_total": 8,
    "nodes": 1,
    "model_name": "llama-3.1-8b",
    "hidden": 4096,
    "layers": 32,
    "heads": 32,
    "kv_heads": 8,
    "ffn": 14336,
    "vocab": 128256,
    "mlp_type": "swiglu",
    "tied_embeddings": False,
    "seq_len": 8192,
    "micro_batch_per_gpu": 1,
    "grad_accum": 1,
    "compute_dtype": "bf16",
    "activation_checkpointing": "full",
    "sharding": "full",
    "compile": True,
    "tokens_per_s_per_gpu": 7000,
    "peak_mem_gib": 40,
    "peak_mem_kind": "reserved",
}


def test_all_shipped_results_are_there(client: TestClient) -> None:
    page = client.get("/results", params={"limit": 1000}).json()
    assert page["total"] == len(load_shipped_results())
    assert set(page["results"][0]) >= {*RESULT_COLUMNS, "source", "in_scope", "why_not", "origin"}


@pytest.mark.parametrize(
    ("params", "holds"),
    [
        ({"gpu": "b200"}, lambda row: "b200" in row["gpu"].lower()),
        ({"framework": "fsdp2"}, lambda row: "fsdp2" in row["framework"]),
        ({"model": "LLAMA"}, lambda row: "llama" in row["model_name"].lower()),
        ({"precision": "fp8"}, lambda row: "fp8" in row["compute_dtype"]),
        ({"source": "titan"}, lambda row: "titan" in row["source"]),
        ({"has_memory": "true"}, lambda row: row["peak_mem_gib"] is not None),
        ({"has_memory": "false"}, lambda row: row["peak_mem_gib"] is None),
        ({"scope": "in"}, lambda row: row["in_scope"]),
        ({"scope": "out"}, lambda row: not row["in_scope"] and row["why_not"]),
    ],
)
def test_filters(client: TestClient, params: dict[str, str], holds: Any) -> None:
    page = client.get("/results", params={**params, "limit": 1000}).json()
    assert 0 < page["total"] < len(load_shipped_results())
    assert len(page["results"]) == page["total"]
    assert all(holds(row) for row in page["results"])


def test_wildcards_are_plain_characters(client: TestClient) -> None:
    assert client.get("/results", params={"gpu": "%"}).json()["total"] == 0


def test_pages_join_to_the_whole(client: TestClient) -> None:
    whole = client.get("/results", params={"limit": 20}).json()["results"]
    halves = [
        row
        for offset in (0, 10)
        for row in client.get("/results", params={"limit": 10, "offset": offset}).json()["results"]
    ]
    assert halves == whole


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"limit": 0}, "limit"),
        ({"limit": "many"}, "limit"),
        ({"offset": -1}, "offset"),
        ({"scope": "maybe"}, "scope"),
        ({"gpu": "a\0b"}, "gpu"),
        ({"gpu": "x" * 500}, "gpu"),
    ],
)
def test_wrong_filters_are_refused(client: TestClient, params: dict[str, Any], field: str) -> None:
    response = client.get("/results", params=params)
    assert response.status_code == 422
    assert response.json()["field"] == field


def test_own_rows_are_stored_and_change_the_calibration(any_url: str) -> None:
    with TestClient(create_app(Settings(database_url=any_url))) as client:
        question = {"model": {"name": "llama-3.1-8b"}, "budget_usd": 500}
        before = client.post("/recommend", json=question).json()
        sent = client.post("/results", json={"rows": [ROW], "uploaded_by": "me"})
        assert sent.status_code == 201
        assert sent.json() == {"num_added": 1, "num_unchanged": 0}
        page = client.get("/results", params={"source": "mine"}).json()
        row = page["results"][0]
        assert {key: row[key] for key in ROW} == ROW
        assert (row["origin"], row["uploaded_by"]) == ("user", "me")
        after = client.post("/recommend", json=question).json()
        assert after["results_version"] != before["results_version"]
        assert after["id"] != before["id"]
        kept = client.get(f"/recommendations/{before['id']}").json()
        assert kept == before


def test_the_same_row_again_changes_nothing(own_client: TestClient) -> None:
    assert own_client.post("/results", json=ROW).status_code == 201
    again = own_client.post("/results", json=ROW)
    assert again.json() == {"num_added": 0, "num_unchanged": 1}


def test_other_values_under_a_stored_id_are_a_conflict_and_nothing_is_written(
    own_client: TestClient,
) -> None:
    assert own_client.post("/results", json=ROW).status_code == 201
    total = own_client.get("/results").json()["total"]
    rows = [{**ROW, "id": "mine-2"}, {**ROW, "peak_mem_gib": 41}]
    response = own_client.post("/results", json=rows)
    assert response.status_code == 409
    assert "mine-1" in response.json()["detail"]
    assert own_client.get("/results").json()["total"] == total


def test_a_row_that_contradicts_itself_is_refused_and_answers_go_on(
    own_client: TestClient,
) -> None:
    rows = [{**ROW, "id": "mine-3"}, {**ROW, "gpus_total": 1, "nodes": 2}]
    response = own_client.post("/results", json=rows)
    assert response.status_code == 422
    assert response.json()["field"] == "rows.1.nodes"
    assert own_client.get("/results", params={"source": "mine"}).json()["total"] == 0


def test_an_id_twice_in_one_upload_is_a_conflict(own_client: TestClient) -> None:
    assert own_client.post("/results", json=[ROW, ROW]).status_code == 409


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"source_url": None}, "rows.0.source_url"),
        ({"peak_mem_gib": -4}, "rows.0.peak_mem_gib"),
        ({"seq_len": "8192"}, "rows.0.seq_len"),
        ({"sped": 3}, "rows.0.sped"),
    ],
)
def test_rows_are_refused_at_the_column(
    client: TestClient, change: dict[str, Any], field: str
) -> None:
    response = client.post("/results", json={**ROW, **change})
    assert response.status_code == 422
    assert response.json()["field"] == field
