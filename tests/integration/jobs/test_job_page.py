"""The page of one job: followed by a script, or without one; its state told; its figures drawn."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.jobs.tables import Job
from app.main import create_app
from app.settings import Settings

HTML = {"accept": "text/html"}
QUESTION = {"model": {"size_b": 0.1}, "num_tokens": 20_000, "seq_len": 128, "instances": ["p5"]}
STEP = {
    "step": 7,
    "num_steps": 20,
    "tokens_per_s_per_gpu": 10.0,
    "peak_reserved_bytes": 2**30,
    "loss": 2.5,
    "remaining_s": 60.0,
}


@pytest.fixture
def client(sqlite_url: str, tmp_path: Path) -> Iterator[TestClient]:
    """A service whose jobs stay as they are."""
    settings = Settings(database_url=sqlite_url, worker="separate", jobs_dir=str(tmp_path / "jobs"))
    with TestClient(create_app(settings)) as mine:
        yield mine


@pytest.fixture
def job(client: TestClient) -> str:
    identity = client.post("/recommend", json=QUESTION).json()["id"]
    found: str = client.post("/jobs", json={"recommendation_id": identity}).json()["id"]
    return found


def page_of(client: TestClient, job: str, language: str = "en", **values: Any) -> str:
    """The page of a job with these values."""
    database = client.app.state.database  # type: ignore[attr-defined]
    with database.writing() as session:
        row = session.get_one(Job, job)
        for name, value in values.items():
            setattr(row, name, value)
    page = client.get(f"/jobs/{job}", headers={**HTML, "accept-language": language})
    assert page.status_code == 200
    return page.text


def test_an_unfinished_job_is_followed_with_scripts_or_without(
    client: TestClient, job: str
) -> None:
    page = page_of(client, job)
    head = page.partition("</head>")[0]
    assert re.search(r'<script src="/static/job\.js\?v=[\d.]+" defer></script>', head)
    assert re.search(r'<noscript><meta http-equiv="refresh" content="\d+"></noscript>', head)
    assert "http-equiv" not in page.replace("<noscript><meta http-equiv", "")
    assert '<div id="live">' in page
    assert client.get("/static/job.js").status_code == 200


@pytest.mark.parametrize("status", ["completed", "failed", "stopped"])
def test_an_ended_job_is_not_followed(client: TestClient, job: str, status: str) -> None:
    page = page_of(client, job, status=status)
    assert "job.js" not in page
    assert "refresh" not in page
    assert '<div id="live" data-ended>' in page


def test_the_status_is_told_to_who_does_not_see_it(client: TestClient, job: str) -> None:
    for status in ("queued", "running", "stopping"):
        page = page_of(client, job, status=status)
        (told,) = re.findall(r'<span role="status"[^>]*>(.*?)</span></span>', page)
        assert told.endswith(f">{status}")


def test_bars_show_what_is_measured_against_what_was_predicted(
    client: TestClient, job: str
) -> None:
    before = page_of(client, job)
    assert before.count('<svg width="100%"') == 2
    assert "part-0" not in before
    page = page_of(client, job, status="running", progress=json.dumps(STEP))
    assert page.count('class="part-0"') == 2
    found = client.get(f"/jobs/{job}").json()["compared"]
    speed, (low, high) = found["tokens_per_s"], found["tokens_per_s"]["interval"]
    label = f"{speed['measured']:,.0f} measured, {low:,.0f} to {high:,.0f} predicted"
    assert f'aria-label="Tokens a second: {label}"' in page
    assert 'aria-label="Peak memory of a GPU: 1.0 GiB measured, ' in page
    assert "style=" not in page
    assert "Step 7 of 20, about 60 seconds left" in page


def test_the_page_is_in_japanese_too(client: TestClient, job: str) -> None:
    page = page_of(client, job, language="ja", status="running", progress=json.dumps(STEP))
    assert 'lang="ja"' in page
    assert "実行中" in page
