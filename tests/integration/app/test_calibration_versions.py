"""Calibration versions: stored, stated, and enough to give an old answer again, byte for byte."""

import json
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import update

from app.cli import main
from app.main import create_app
from app.settings import Settings
from app.tables import StoredResult

QUESTION = {
    "model": {"name": "llama-3.2-1b"},
    "budget_usd": 5000,
    "instances": ["p5.48xlarge"],
    "max_instances": 1,
}
# Above the capacity-free estimate, so that the factors move when it is stored.
MEASURED = {
    "id": "mine-1",
    "source_url": "https://example.org/run",
    "framework": "fsdp2",
    "gpu": "H100-80GB-SXM",
    "gpus_total": 8,
    "nodes": 1,
    "model_name": "tiny",
    "hidden": 2048,
    "layers": 16,
    "heads": 32,
    "kv_heads": 8,
    "ffn": 8192,
    "vocab": 128256,
    "mlp_type": "swiglu",
    "seq_len": 4096,
    "micro_batch_per_gpu": 2.0,
    "compute_dtype": "bf16",
    "param_dtype": "fp32",
    "activation_checkpointing": "none",
    "sharding": "full",
    "compile": False,
    "tokens_per_s_per_gpu": 21000.0,
    "peak_mem_gib": 41.0,
    "peak_mem_kind": "reserved",
}


def test_an_old_answer_is_given_again_after_new_results(any_url: str) -> None:
    with TestClient(create_app(Settings(database_url=any_url))) as client:
        before = client.post("/recommend", json=QUESTION)
        version = before.json()["calibration_version"]
        assert client.post("/results", json=MEASURED).status_code == 201
        after = client.post("/recommend", json=QUESTION)
        assert after.json()["calibration_version"] != version
        again = client.post("/recommend", json={**QUESTION, "calibration_version": version})
    assert again.status_code == 200
    assert again.content == before.content
    assert after.content != before.content
    # The stored numbers are enough: another process, with an empty cache, gives the same bytes.
    with TestClient(create_app(Settings(database_url=any_url))) as other:
        given = other.post("/recommend", json={**QUESTION, "calibration_version": version})
        assert given.content == before.content


def test_a_version_that_is_not_stored_is_not_found(client: TestClient) -> None:
    answer = client.post("/recommend", json={**QUESTION, "calibration_version": "0" * 12})
    assert answer.status_code == 404
    assert "calibration" in answer.json()["detail"]


@pytest.mark.parametrize("version", ["", "latest", 3, "0" * 13])
def test_a_version_must_look_like_one(client: TestClient, version: Any) -> None:
    answer = client.post("/recommend", json={**QUESTION, "calibration_version": version})
    assert answer.status_code == 422
    assert answer.json()["field"] == "calibration_version"


def test_changed_results_behind_a_version_are_a_conflict(own_client: TestClient) -> None:
    version = own_client.post("/recommend", json=QUESTION).json()["calibration_version"]
    service = own_client.app.state.service  # type: ignore[attr-defined] # Starlette's own attribute
    with service.database.writing() as session:
        session.execute(update(StoredResult).values(notes="other"))
    answer = own_client.post("/recommend", json={**QUESTION, "calibration_version": version})
    assert answer.status_code == 409
    assert version in answer.json()["detail"]


def test_calibrate_shows_each_factor_and_keeps_the_version(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SHARDWISE_DATABASE_URL", sqlite_url)
    assert main(["calibrate", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    lines = {line["name"]: line for line in report["factors"]}
    assert len(lines["matmul"]["result_ids"]) == lines["matmul"]["count"] > 100
    assert lines["matmul"]["low"] < lines["matmul"]["value"] < lines["matmul"]["high"]
    assert lines["launch_s"]["count"] == 0
    assert lines["launch_s"]["low"] is None
    assert lines["reserved/sharded"]["num_sources"] > 1
    assert report["accuracy"]["memory"]["count"] > 50
    assert main(["calibrate"]) == 0
    text = capsys.readouterr().out
    assert report["version"] in text
    assert "held at its prior" in text
    flags = ["recommend", "--model", "llama-3.2-1b", "--budget-usd", "5000", "--json"]
    assert main(flags) == 0
    first = capsys.readouterr().out
    assert main([*flags, "--calibration", report["version"]]) == 0
    assert capsys.readouterr().out == first
    assert main([*flags, "--calibration", "0" * 12]) == 2


def test_the_command_line_without_a_database_knows_the_shipped_version_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    flags = ["recommend", "--model", "llama-3.2-1b", "--budget-usd", "5000", "--json"]
    assert main(flags) == 0
    first = capsys.readouterr().out
    version = json.loads(first)["calibration_version"]
    assert main([*flags, "--calibration", version]) == 0
    assert capsys.readouterr().out == first
    assert main([*flags, "--calibration", "0" * 12]) == 2
    assert version in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_physically_impossible_result_is_stored_flagged_and_explained(
    own_client: TestClient,
) -> None:
    faulty = {**MEASURED, "id": "mine-2", "tokens_per_s_per_gpu": 900_000.0}
    before = own_client.post("/recommend", json=QUESTION).json()
    assert own_client.post("/results", json=faulty).status_code == 201
    (row,) = own_client.get("/results", params={"source": "mine"}).json()["results"]
    assert row["in_scope"] is True
    assert "above the peak" in row["flags"]
    page = own_client.get("/results", params={"source": "mine"}, headers={"Accept": "text/html"})
    assert "above the peak" in page.text
    after = own_client.post("/recommend", json=QUESTION).json()
    speed = [each["best"]["throughput"]["tokens_per_s"] for each in (before, after)]
    assert speed[0] == speed[1]
