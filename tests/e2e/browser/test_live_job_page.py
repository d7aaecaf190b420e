"""The page of a job in a real browser: it follows the job, and leaves the reader where they are."""

import json
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from chromium import Opener
from fastapi import FastAPI
from playwright.sync_api import Page, Request, expect

from app.database import Database
from app.jobs.schemas import JobRequest
from app.jobs.store import plan_job, write_job
from app.jobs.tables import Job
from app.knowledge import knowledge_of
from app.main import create_app
from app.recommendations import answer, store
from app.schemas import RecommendRequest
from app.service import Service
from app.settings import Settings

QUESTION = {"model": {"size_b": 0.1}, "num_tokens": 20_000, "seq_len": 128, "instances": ["p5"]}
CHECKS = [{"name": "memory", "verdict": "pass", "detail": "enough", "remedy": ""}]
MARK = "() => { window.isMarked = true; }"
IS_MARKED = "() => window.isMarked === true"
TELL = """() => {
  window.told = [];
  const status = document.querySelector("[role=status]");
  const note = () => window.told.push(status.textContent);
  const all = { childList: true, characterData: true, subtree: true };
  new MutationObserver(note).observe(status, all);
}"""


class FollowedJob:
    """A job whose state is the test's, on a service of its own."""

    def __init__(self, url: str, database: Database, identity: str) -> None:
        self.url, self.path = url, f"/jobs/{identity}"
        self._database, self._identity = database, identity

    def set(self, **values: Any) -> None:
        """The job as it is from now on."""
        with self._database.writing() as session:
            job = session.get_one(Job, self._identity)
            for name, value in values.items():
                setattr(job, name, value)

    def step(self, number: int) -> None:
        """The job runs, and has done so many steps of 60; its log says each."""
        progress = {"step": number, "num_steps": 60, "tokens_per_s_per_gpu": 1e4, "loss": 2.0}
        whole = {**progress, "peak_reserved_bytes": 2**30, "remaining_s": 60.0}
        log = "\n".join(f"step {each}" for each in range(1, number + 1))
        self.set(status="running", progress=json.dumps(whole), log_tail=log)


def new_job(service: Service) -> str:
    """A queued job; its id."""
    question = RecommendRequest.model_validate(QUESTION)
    given = answer(question, knowledge_of(()))
    with service.database.writing() as session:
        store(session, given)
        new = plan_job(
            session, JobRequest(recommendation_id=given.id), service.settings, created_by=None
        )
        job = write_job(session, new, service.settings, datetime.now(UTC))
        job.preflight = json.dumps(CHECKS)
        return job.id


@pytest.fixture
def followed(tmp_path: Path) -> Iterator[FollowedJob]:
    """A job on a service without a worker."""
    settings = Settings(
        database_url=f"sqlite:///{tmp_path}/test.db",
        worker="separate",
        jobs_dir=str(tmp_path / "jobs"),
    )
    app: FastAPI = create_app(settings)
    # A stream of events must not hold up the end of the test.
    config = uvicorn.Config(app, port=0, log_config=None, timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.02)
        port = server.servers[0].sockets[0].getsockname()[1]
        service: Service = app.state.service
        yield FollowedJob(f"http://127.0.0.1:{port}", service.database, new_job(service))
    finally:
        server.should_exit = True
        thread.join()


def asked_again(page: Page) -> list[str]:
    """What the page's script fetches from now on."""
    found: list[str] = []

    def note(request: Request) -> None:
        if request.resource_type == "fetch":
            found.append(request.url)

    page.on("request", note)
    return found


def test_the_page_follows_the_job_to_its_end(followed: FollowedJob, open_page: Opener) -> None:
    page = open_page(followed.path, url=followed.url)
    expect(page.locator("[role=status]")).to_have_text("queued")
    page.evaluate(MARK)
    page.evaluate(TELL)
    followed.step(3)
    expect(page.locator("label[for=progress]")).to_contain_text("Step 3 of 60")
    expect(page.locator("[role=status]")).to_have_text("running")
    assert page.locator("svg .part-0").count() == 2
    followed.step(5)
    expect(page.locator("progress")).to_have_attribute("value", "5")
    followed.set(status="failed", failure_reason="the reason", remedy="the remedy")
    expect(page.get_by_role("alert")).to_contain_text("the reason")
    expect(page.get_by_role("button", name="Resume from the last checkpoint")).to_be_visible()
    # The same page still, on which only what changed was put in place, and told.
    assert page.evaluate(IS_MARKED)
    assert page.evaluate("window.told") == ["running", "failed"]
    asked = asked_again(page)
    followed.set(status="completed")
    page.wait_for_timeout(2500)
    assert asked == []


def test_the_reader_stays_where_they_are(followed: FollowedJob, open_page: Opener) -> None:
    followed.step(50)
    page = open_page(followed.path, url=followed.url, viewport={"width": 800, "height": 500})
    page.evaluate(MARK)
    stop = page.get_by_role("button", name="Stop, and save first")
    log = page.locator("pre")
    scrolled = "(each) => { each.scrollTop = 40; each.focus(); return window.scrollY; }"
    page.mouse.wheel(0, 300)
    before = log.evaluate(scrolled)
    followed.step(51)
    expect(log).to_contain_text("step 51")
    assert log.evaluate("(each) => each.scrollTop") == 40
    assert log.evaluate("(each) => document.activeElement === each")
    assert page.evaluate("window.scrollY") == before
    stop.focus()
    followed.step(52)
    expect(page.locator("label[for=progress]")).to_contain_text("Step 52 of 60")
    expect(stop).to_be_focused()
    # The button that has the focus goes: what came of the job takes it.
    followed.set(status="completed")
    expect(stop).to_have_count(0)
    expect(page.locator(".verdict")).to_be_focused()
    assert page.evaluate(IS_MARKED)


def test_a_service_that_is_away_for_a_while_is_followed_again(
    followed: FollowedJob, open_page: Opener
) -> None:
    page = open_page(followed.path, url=followed.url)
    page.evaluate(MARK)
    page.route("**/jobs/*", lambda route: route.fulfill(status=503, body="away"))
    asked = asked_again(page)
    followed.step(3)
    while not asked:
        page.wait_for_timeout(50)
    expect(page.locator("[role=status]")).to_have_text("queued")
    page.unroute("**/jobs/*")
    followed.step(4)
    expect(page.locator("label[for=progress]")).to_contain_text("Step 4 of 60")
    assert page.evaluate(IS_MARKED)


def test_without_scripts_the_page_asks_for_itself_again(
    followed: FollowedJob, open_page: Opener
) -> None:
    page = open_page(followed.path, url=followed.url, java_script_enabled=False)
    expect(page.locator("[role=status]")).to_have_text("queued")
    followed.step(3)
    expect(page.locator("[role=status]")).to_have_text("running")
