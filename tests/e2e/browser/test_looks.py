"""How pages look: WCAG AA, light and dark, wide and as a phone, in both languages, on paper."""

import re
from pathlib import Path
from typing import Any

import pytest
from chromium import Opener, accessibility_faults, picture_is_whole

QUERY = "/?model_name=llama-3.1-8b&budget_usd=20000"
PAGES = {
    "start": "/",
    "answer": QUERY,
    "wrong": "/?model_name=lama&seq_len=x",
    "nothing-fits": "/?model_size_b=64&num_tokens=1T&budget_usd=1000",
    "compare": "/compare?model_name=llama-3.1-8b&instance_type=p4d.24xlarge&num_instances=4"
    "&micro_batch=1&activation_checkpointing=full",
    "jobs": "/jobs",
    "results": "/results?limit=20",
    "accuracy": "/accuracy",
    "api": "/api?model_name=llama-3.1-8b&budget_usd=20000",
    "missing": "/nowhere",
}
WIDE = {"width": 1280, "height": 900}
PHONE = {"width": 390, "height": 844}
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"viewport": WIDE},
    "dark": {"viewport": WIDE, "color_scheme": "dark"},
    "phone": {"viewport": PHONE, "has_touch": True},
    "japanese": {"viewport": WIDE, "locale": "ja-JP"},
    "japanese-phone": {"viewport": PHONE, "locale": "ja-JP"},
}
# Three English words in a row; names, code and data are not sentences.
ENGLISH = re.compile(r"\b(?!et al)[A-Za-z]{2,} (?!et al)[a-z]{2,} (?!al\b)[a-z]{2,}\b")
# Text that stands in the page as it is in its source: code, data, names and other languages.
TEXTS = """() => {
  const quoted = "code, pre, script, [lang]:not(html), datalist, textarea, var, .written, .source";
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const found = [];
  while (walker.nextNode()) {
    const parent = walker.currentNode.parentElement;
    if (!parent.closest(quoted)) found.push(walker.currentNode.data);
  }
  for (const name of ["aria-label", "placeholder", "title"]) {
    for (const each of document.querySelectorAll(`[${name}]`)) found.push(each.getAttribute(name));
  }
  return found;
}"""


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("name", PAGES)
def test_pages_are_for_everybody(open_page: Opener, pictures: Path, name: str, look: str) -> None:
    page = open_page(PAGES[name], **LOOKS[look])
    page.screenshot(path=pictures / f"{name}-{look}.png", full_page=True)
    page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
    assert accessibility_faults(page) == []
    assert picture_is_whole(page) == []


@pytest.mark.parametrize("name", PAGES)
def test_japanese_pages_have_no_english_sentences(open_page: Opener, name: str) -> None:
    page = open_page(PAGES[name], locale="ja-JP")
    assert page.locator("html").get_attribute("lang") == "ja"
    texts = [text.strip() for text in page.evaluate(TEXTS)]
    assert [text for text in texts if ENGLISH.search(text)] == []


def test_the_language_is_switched_and_kept(open_page: Opener) -> None:
    page = open_page(QUERY)
    page.get_by_role("link", name="日本語").click()
    assert page.url.endswith(QUERY)
    assert page.locator("html").get_attribute("lang") == "ja"
    page.goto("/jobs")
    assert page.locator("html").get_attribute("lang") == "ja"
    page.get_by_role("link", name="English").click()
    assert page.url.endswith("/jobs")
    assert page.locator("html").get_attribute("lang") == "en"


def test_the_answer_can_be_printed(open_page: Opener, pictures: Path) -> None:
    page = open_page(QUERY)
    page.emulate_media(media="print")
    assert not page.locator("#question").is_visible()
    assert page.locator("#answer .verdict").is_visible()
    page.pdf(path=pictures / "answer.pdf", format="A4")
    assert (pictures / "answer.pdf").read_bytes().startswith(b"%PDF")
