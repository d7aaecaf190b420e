"""Browsers for tests: one chromium, a fresh context for each test, pictures that are kept."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from chromium import Opener, Troubles, chromium_path, screenshots_folder
from playwright.sync_api import Browser, Page, sync_playwright
from running_server import Server

# Playwright's own limit for whatever is waited for.
LIMIT_MS = 30_000


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Headless chromium."""
    path = chromium_path()
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def open_page(browser: Browser, server: Server) -> Iterator[Opener]:
    """A page in a context of its own: open_page(path, locale="ja-JP", color_scheme="dark", …).

    What a page complains of fails the test.
    """
    contexts = []
    troubles = []

    def opened(path: str, url: str = server.url, **options: object) -> Page:
        context = browser.new_context(base_url=url, **options)  # type: ignore[arg-type]
        context.set_default_timeout(LIMIT_MS)
        contexts.append(context)
        page = context.new_page()
        troubles.append(Troubles(page))
        page.goto(path)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert [text for each in troubles for text in each.found] == []


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pictures of pages are kept."""
    return screenshots_folder(tmp_path_factory.mktemp("screenshots"))
