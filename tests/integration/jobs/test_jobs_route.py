"""Jobs over HTTP and as pages: started once, previewed, stopped, resumed, refused clearly."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.jobs.tables import Job
from app.main import create_app
from app.settings import Settings

HTML = {"accept": "text/html,application/xhtml+xml"}
QUESTION = {"model": {"size_b": 0.1}, "num_tokens": 20_000, "seq_len": 128, "instances": ["p5"]}
AWS = {
    "backend": "sagemaker",
    "role_arn": "arn:aws:iam::123456789012:role/training",
    "output_s3_uri": "s3://bucket/out",
    "checkpoint_s3_uri": "s3://bucket/ckpt",
}


@pytest.fixture
def client(any_url: str, tmp_path: Path) -> Iterator[TestClient]:
    """A service whose jobs stay queued: the worker is left to others."""
    settings = Settings(
        database_url=any_url, worker="separate", jobs_dir=str(tmp_path / "jobs"), max_backlog=3
    )
    with TestClient(create_app(settings)) as mine:
        yield mine


@pytest.fixture
def recommendation(client: TestClient) -> str:
    identity: str = client.post("/recommend", json=QUESTION).json()["id"]
    return identity


def set_status(client: TestClient, identity: str, status: str, **values: Any) -> None:
    database = client.app.state.database  # type: ignore[attr-defined]
    with database.writing() as session:
        job = session.get_one(Job, identity)
        job.status = status
        for name, value in values.items():
            setattr(job, name, value)


def test_a_job_is_accepted_with_its_address(client: TestClient, recommendation: str) -> None:
    answer = client.post("/jobs", json={"recommendation_id": recommendation})
    assert answer.status_code == 202
    job = client.get(answer.headers["location"]).json()
    assert (job["status"], job["backend"], job["kind"]) == ("queued", "local", "train")
    assert job["order"]["hyperparameters"]["num_tokens"]
    assert client.get("/jobs").json()["total"] == 1
    assert client.get("/jobs?status=running").json()["jobs"] == []


def test_the_same_key_starts_one_job(client: TestClient, recommendation: str) -> None:
    wanted = {"recommendation_id": recommendation, "idempotency_key": "mine"}
    first, second = (client.post("/jobs", json=wanted).json()["id"] for _ in range(2))
    assert first == second
    other = client.post("/jobs", json={**wanted, "kind": "probe"})
    assert (other.status_code, other.json()["error"]) == (409, "conflict")


def test_beyond_the_backlog_it_says_so(client: TestClient, recommendation: str) -> None:
    wanted = {"recommendation_id": recommendation}
    statuses = [client.post("/jobs", json=wanted).status_code for _ in range(4)]
    assert statuses == [202, 202, 202, 429]
    assert client.post("/jobs", json=wanted).json()["error"] == "too_many_jobs"


@pytest.mark.parametrize(
    ("change", "status", "field"),
    [
        ({"recommendation_id": "0" * 24}, 404, None),
        ({"candidate": 99}, 422, "candidate"),
        ({"candidate": 10**30}, 422, "candidate"),
        ({"role_arn": "me"}, 422, "role_arn"),
        ({"plan": {"micro_batch": 64}}, 422, "plan"),
        (AWS, 422, "backend"),
        ({"data": "relative/folder"}, 422, "data"),
    ],
)
def test_refusals_name_their_field(
    client: TestClient, recommendation: str, change: dict[str, Any], status: int, field: str | None
) -> None:
    for path in ("/jobs", "/jobs/preview"):
        answer = client.post(path, json={"recommendation_id": recommendation, **change})
        assert answer.status_code == status, answer.text
        assert answer.json().get("field") == field
    assert client.get("/jobs").json()["total"] == 0


def test_a_preview_changes_nothing(client: TestClient, recommendation: str) -> None:
    found = client.post("/jobs/preview", json={"recommendation_id": recommendation}).json()
    assert {check["name"] for check in found["preflight"]} >= {"hardware", "memory", "data"}
    assert found["verdict"] == "warn"
    assert "torchrun" in found["files"]["torchrun.sh"]
    assert client.get("/jobs").json()["total"] == 0


def test_stop_is_noted_once_and_refused_after_the_end(
    client: TestClient, recommendation: str
) -> None:
    identity = client.post("/jobs", json={"recommendation_id": recommendation}).json()["id"]
    for _ in range(2):
        assert client.post(f"/jobs/{identity}/stop").status_code == 202
    assert client.get(f"/jobs/{identity}").json()["stop_requested_at"]
    set_status(client, identity, "stopped")
    assert client.post(f"/jobs/{identity}/stop").status_code == 409


def test_resume_goes_on_from_the_same_checkpoints(client: TestClient, recommendation: str) -> None:
    first = client.post("/jobs", json={"recommendation_id": recommendation}).json()["id"]
    assert client.post(f"/jobs/{first}/resume").status_code == 409
    set_status(client, first, "stopped")
    second = client.post(f"/jobs/{first}/resume").json()["id"]
    one, two = (client.get(f"/jobs/{each}").json() for each in (first, second))
    assert two["resumes_id"] == first
    assert two["order"]["checkpoint_uri"] == one["order"]["checkpoint_uri"]
    # Two jobs that write to one place at once would destroy each other's checkpoints.
    assert client.post(f"/jobs/{first}/resume").status_code == 409
    set_status(client, second, "completed")
    assert client.post(f"/jobs/{second}/resume").status_code == 409


@pytest.mark.parametrize("path", ["/jobs/nothing", f"/jobs/{'0' * 32}", "/jobs/x/events"])
def test_unknown_jobs_are_not_found(client: TestClient, path: str) -> None:
    assert client.get(path).status_code == 404


def test_events_are_streamed_from_where_the_client_was(
    client: TestClient, recommendation: str
) -> None:
    identity = client.post("/jobs", json={"recommendation_id": recommendation}).json()["id"]
    client.post(f"/jobs/{identity}/stop")
    set_status(client, identity, "stopped")
    text = client.get(f"/jobs/{identity}/events").text
    told = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]
    kinds = [each["kind"] for each in told if "kind" in each]
    assert kinds == ["queued", "stop_requested"]
    first = next(each["id"] for each in told if "id" in each)
    rest = client.get(f"/jobs/{identity}/events", headers={"last-event-id": str(first)}).text
    assert "event: queued" not in rest
    assert "event: stop_requested" in rest


def test_the_pages_lead_from_an_answer_to_a_job(client: TestClient, recommendation: str) -> None:
    answer = client.get(f"/recommendations/{recommendation}", headers=HTML).text
    assert f"/jobs/new?recommendation_id={recommendation}" in answer
    query = f"/jobs/new?recommendation_id={recommendation}"
    assert "Check it" in client.get(query, headers=HTML).text
    chosen = f"{query}&candidate=0&backend=local&kind=probe&data=&max_runtime_hours="
    checked = client.get(chosen, headers=HTML)
    assert checked.status_code == 200
    assert "What it can cost" in checked.text
    script = client.get(chosen.replace("/jobs/new", "/jobs/new/files/torchrun.sh"))
    assert script.headers["content-disposition"] == 'attachment; filename="torchrun.sh"'
    assert "--probe 20" in script.text
    form = {
        "recommendation_id": recommendation,
        "candidate": "0",
        "backend": "local",
        "kind": "probe",
        "idempotency_key": "from-the-form",
    }
    places = [
        client.post("/jobs/new", data=form, headers=HTML, follow_redirects=False).headers[
            "location"
        ]
        for _ in range(2)
    ]
    assert places[0] == places[1]
    page = client.get(places[0], headers=HTML).text
    assert "queued" in page
    assert 'http-equiv="refresh"' in page
    stopped = client.post(f"{places[0]}/stop", headers=HTML, follow_redirects=False)
    assert stopped.status_code == 303
    assert "fsdp-" in client.get("/jobs", headers=HTML).text


def test_a_wrong_form_keeps_what_was_typed(client: TestClient, recommendation: str) -> None:
    page = client.get(
        f"/jobs/new?recommendation_id={recommendation}&kind=train&backend=local"
        "&data=there&max_runtime_hours=999999",
        headers=HTML,
    )
    assert page.status_code == 422
    assert 'value="there"' in page.text
    assert 'id="max_runtime_hours-error"' in page.text


def test_what_a_job_says_is_escaped(client: TestClient, recommendation: str) -> None:
    identity = client.post("/jobs", json={"recommendation_id": recommendation}).json()["id"]
    bad = "<script>alert(1)</script>"
    set_status(client, identity, "failed", failure_reason=bad, remedy=bad, log_tail=bad)
    for path in (f"/jobs/{identity}", "/jobs"):
        assert bad not in client.get(path, headers=HTML).text
