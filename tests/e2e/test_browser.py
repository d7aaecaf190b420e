"""The page in a real browser, where there is one: it shows, in light, dark and on a phone."""

import shutil
import subprocess
from pathlib import Path

import pytest
from running_server import Server

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
QUERY = "/?model_name=llama-3.1-8b&budget_usd=20000"


def chromium(tmp_path: Path, *arguments: str) -> str:
    if CHROMIUM is None:
        # Not a skip: the same pages are read without a browser in tests/integration/app.
        pytest.fail("chromium is missing: install it (Debian's package is named chromium)")
    done = subprocess.run(
        [
            CHROMIUM,
            *("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
            f"--user-data-dir={tmp_path}/profile",
            *arguments,
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout


def test_the_answer_is_in_the_page(server: Server, tmp_path: Path) -> None:
    text = chromium(tmp_path, "--dump-dom", server.url + QUERY)
    assert "Train llama-3.1-8b on" in text
    assert 'class="part part-0"' in text


@pytest.mark.parametrize(
    ("size", "flags"),
    [("1280,2000", ()), ("500,2000", ()), ("1280,2000", ("--force-dark-mode",))],
    ids=["desktop", "phone", "dark"],
)
def test_it_can_be_seen(server: Server, tmp_path: Path, size: str, flags: tuple[str, ...]) -> None:
    picture = tmp_path / "page.png"
    chromium(
        tmp_path,
        *flags,
        f"--window-size={size}",
        f"--screenshot={picture}",
        server.url + QUERY,
    )
    assert picture.read_bytes().startswith(b"\x89PNG")
    # A page that is blank or an error compresses to almost nothing.
    assert picture.stat().st_size > 30_000
