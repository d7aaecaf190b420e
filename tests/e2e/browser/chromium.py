"""Chromium for tests: where it is, and what every page must do in it."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import ConsoleMessage, Page, Request

# open_page(path, **options of a browser context)
Opener = Callable[..., Page]
# Where a browser is required, a missing one is a failure (.ci/run sets it).
REQUIRED = "TEST_BROWSER_REQUIRED"
PATH = "TEST_CHROMIUM"
SCREENSHOTS = "TEST_SCREENSHOTS"
WCAG_AA = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa")
# Of the plotting library: maps, which no page has, would be styled by an element with text.
MAP_STYLES = "Applying inline style violates the following Content Security Policy"


def chromium_path() -> str:
    """Debian's chromium, or another; without one the test is skipped, or fails where required."""
    found = os.environ.get(PATH) or shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None or not Path(found).exists():
        reason = f"no chromium here: install Debian's package chromium, or set {PATH}"
        if os.environ.get(REQUIRED):
            pytest.fail(reason)
        pytest.skip(reason)
    return found


def screenshots_folder(otherwise: Path) -> Path:
    """Where pictures are kept."""
    folder = Path(os.environ.get(SCREENSHOTS) or otherwise)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


class Troubles:
    """What a page complains of: errors of scripts, of the policy, of requests."""

    def __init__(self, page: Page) -> None:
        self.found: list[str] = []
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.found.append(str(error)))
        page.on("requestfailed", self._on_failed)

    def _on_failed(self, request: Request) -> None:
        # What a page that is left was still loading is of no use to anybody.
        if request.failure != "net::ERR_ABORTED":
            self.found.append(f"{request.failure}: {request.url}")

    def _on_console(self, message: ConsoleMessage) -> None:
        is_of_maps = message.text.startswith(MAP_STYLES) and "/plotly/" in (
            message.location.get("url") or ""
        )
        # A page that tells wrong fields has a 4xx of its own.
        is_status = message.text.startswith("Failed to load resource: the server responded")
        if message.type in ("error", "warning") and not is_of_maps and not is_status:
            self.found.append(message.text)


def accessibility_faults(page: Page) -> list[str]:
    """What axe-core finds against WCAG 2.2 AA: rule, element, and how to mend it."""
    options: dict[str, Any] = {"runOnly": {"type": "tag", "values": list(WCAG_AA)}}
    found = Axe().run(page, options=options).response["violations"]
    return [
        f"{each['id']}: {node['html'][:200]} {node['failureSummary'][:300]}"
        for each in found
        for node in each["nodes"]
    ]


def picture_is_whole(page: Page) -> list[str]:
    """Elements that stick out of the page to the right: the page would scroll sideways."""
    found: list[str] = page.evaluate(
        """() => {
          const width = document.documentElement.clientWidth;
          if (document.documentElement.scrollWidth <= width) return [];
          return [...document.querySelectorAll("body *")]
            .filter((each) => each.getBoundingClientRect().right > width + 1)
            .filter((each) => !each.closest(".scroll, .skip, .hidden, pre"))
            .map((each) => each.outerHTML.slice(0, 120));
        }"""
    )
    return found
