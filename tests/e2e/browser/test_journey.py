"""From a question to a stored result, as an engineer goes: ask, share, launch, watch, look up."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from chromium import Opener
from playwright.sync_api import Page, expect
from running_server import free_port, wait_until_ready

from app.access.roles import Role

JOB_LIMIT_MS = 120_000
SECRET = "a-secret-of-a-test-with-more-than-32-characters"
TINY = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "vocab_size": 512,
    "max_position_embeddings": 256,
    "tie_word_embeddings": True,
}


class Service:
    """A service of this machine in a folder of its own."""

    def __init__(self, folder: Path, host: str = "127.0.0.1") -> None:
        self._folder = folder
        self._host = host
        self._environment = {
            **os.environ,
            "SHARDWISE_DATABASE_URL": f"sqlite:///{folder}/shardwise.db",
            "SHARDWISE_JOBS_DIR": f"{folder}/jobs",
            "SHARDWISE_SECRET_KEY": SECRET,
        }

    def command(self, *arguments: str) -> str:
        """What a command prints."""
        done = subprocess.run(
            [sys.executable, "-m", "app", *arguments],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        return done.stdout.strip()

    def serve(self, port: int) -> "subprocess.Popen[bytes]":
        """The server as a process."""
        with (self._folder / "log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "app", "serve", "--host", self._host, "--port", str(port)],
                env=self._environment,
                stdout=log,
                stderr=log,
            )


@contextmanager
def serving(folder: Path, host: str = "127.0.0.1") -> Iterator[tuple[str, Service]]:
    """The service, its address, and its commands."""
    service = Service(folder, host)
    url = f"http://127.0.0.1:{(port := free_port())}"
    with service.serve(port) as process:
        try:
            wait_until_ready(url, process, folder / "log")
            yield url, service
        finally:
            process.terminate()


def test_ask_share_launch_watch_and_look_it_up(
    open_page: Opener, tmp_path: Path, pictures: Path
) -> None:
    with serving(tmp_path) as (url, _):
        page = open_page("/", url=url)
        ask(page)
        shared = page.locator("[data-share]").get_attribute("href")
        assert shared is not None
        other = open_page(shared, url=url)
        assert verdict(other) == verdict(page)
        other.locator("table.choices").get_by_role("link", name="Run: best").click()
        launch(other)
        other.screenshot(path=pictures / "launch.png", full_page=True)
        other.get_by_role("button", name=re.compile("^Start ")).click()
        other.wait_for_url(re.compile("/jobs/[0-9a-f-]+$"))
        # A job in the page's own time: it ends without a reload.
        expect(other.locator(".badge").first).to_have_text("completed", timeout=JOB_LIMIT_MS)
        expect(other.locator("#live")).to_contain_text("Stored as result")
        other.screenshot(path=pictures / "job.png", full_page=True)
        identity = other.get_by_role("link", name=re.compile("^job-|^shardwise")).last.inner_text()
        other.get_by_role("link", name=identity).last.click()
        expect(other.get_by_role("rowheader", name=identity)).to_be_visible()
        assert httpx.get(f"{url}/results?source=shardwise-job").json()["total"] == 1


def ask(page: Page) -> None:
    """For a model that this machine can train."""
    page.get_by_text("Another model: a size, or a config.json").click()
    page.get_by_label("config.json, pasted").fill(json.dumps(TINY))
    page.get_by_label("Tokens to train on").fill("200000")
    page.get_by_text("Training run").click()
    page.get_by_label("Sequence length in tokens").fill("128")
    page.get_by_label("Tokens in one optimizer step").fill("8192")
    expect(page.locator("#question [role=status]")).to_have_text("The answer is new.")


def verdict(page: Page) -> str:
    return page.locator("#answer .verdict").inner_text()


def launch(page: Page) -> None:
    """From the launch form to its confirmation."""
    page.get_by_label("What", exact=True).select_option("train")
    page.get_by_role("button", name="Check it").click()
    expect(page.get_by_role("heading", name="What it can cost")).to_be_visible()


def test_what_is_wrong_in_a_launch_is_told_and_kept(open_page: Opener) -> None:
    page = open_page("/?model_name=llama-3.1-8b&budget_usd=20000")
    page.get_by_role("link", name="Run these settings").click()
    page.get_by_label("Hours at most").fill("-3")
    page.get_by_label("Data", exact=True).fill("/nowhere/at/all")
    page.get_by_role("button", name="Check it").click()
    expect(page.get_by_role("alert")).to_be_visible()
    expect(page.get_by_label("Hours at most")).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_label("Hours at most")).to_have_value("-3")
    expect(page.get_by_label("Data", exact=True)).to_have_value("/nowhere/at/all")


def test_who_may_do_what(open_page: Opener, tmp_path: Path, pictures: Path) -> None:
    service = Service(tmp_path)
    keys = {
        role.label: service.command("keys", "create", role.label, "--role", role.label)
        for role in Role
    }
    with serving(tmp_path, host="0.0.0.0") as (url, _):  # noqa: S104 - others can reach it
        page = open_page("/?model_name=llama-3.1-8b&budget_usd=20000", url=url)
        assert "/login?next=" in page.url
        page.screenshot(path=pictures / "login.png")
        page.get_by_label("Your key").fill("swk_wrong")
        page.get_by_role("button", name="Log in").click()
        expect(page.locator("#key-error")).to_contain_text("not known")
        page.get_by_label("Your key").fill(keys["viewer"])
        page.get_by_role("button", name="Log in").click()
        # Led on to what was asked for.
        expect(page.locator("#answer .verdict")).to_contain_text("Train llama-3.1-8b on")
        assert page.get_by_role("link", name="Audit").count() == 0
        page.get_by_role("link", name="Run these settings").click()
        expect(page.get_by_role("alert")).to_contain_text("submitter")
        page.get_by_role("button", name="Log out").click()
        page.get_by_label("Your key").fill(keys["admin"])
        page.get_by_role("button", name="Log in").click()
        page.get_by_role("link", name="Audit").click()
        expect(page.get_by_role("cell", name="key.create").first).to_be_visible()
        page.goto("/")
        ask(page)
        page.get_by_role("link", name="Run these settings").click()
        launch(page)
        # A form without its token is another website's.
        page.locator("form[method=post][action='/jobs/new'] input[name=csrf_token]").evaluate(
            "each => { each.value = 'of another'; }"
        )
        page.get_by_role("button", name=re.compile("^Start ")).click()
        expect(page.get_by_role("alert")).to_be_visible()
        page.goto("/jobs")
        expect(page.locator("#content")).to_contain_text("No job has been started yet")
