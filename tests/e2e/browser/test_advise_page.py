"""The first page in a real browser: it follows the form, draws, explains, and is light."""

import json
from pathlib import Path

from chromium import Opener
from playwright.sync_api import Page, expect

QUERY = "/?model_name=llama-3.1-8b&budget_usd=20000"
MAX_PAGE_BYTES = 200_000
CONFIG = {
    "model_type": "llama",
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": True,
}
SHIFTS = """() => {
  window.shifts = 0;
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) window.shifts += entry.value;
  }).observe({ type: "layout-shift", buffered: true });
}"""


def answered(page: Page) -> None:
    expect(page.locator("#answer")).to_have_attribute("aria-busy", "false")
    expect(page.locator("#question [role=status]")).to_have_text("The answer is new.")


def test_the_answer_follows_the_form_and_the_address_follows_both(open_page: Opener) -> None:
    page = open_page("/")
    page.evaluate(SHIFTS)
    page.get_by_role("combobox", name="Model", exact=True).fill("llama-3.1-8b")
    page.get_by_label("Budget in US dollars").fill("20000")
    answered(page)
    expect(page.locator("#answer h1")).to_have_text("llama-3.1-8b")
    expect(page.locator("#answer .verdict")).to_contain_text("Train llama-3.1-8b on")
    assert page.url.endswith(QUERY)
    before = page.locator("#answer .verdict").inner_text()
    page.get_by_label("Budget in US dollars").fill("200000")
    expect(page.locator("#answer .verdict")).not_to_have_text(before)
    answered(page)
    # The form stands where it stood while answers came and went.
    assert page.evaluate("window.shifts") < 0.01
    # The address is the question: opened afresh it has the same answer.
    again = open_page(page.url)
    assert (
        again.locator("#answer .verdict").inner_text()
        == page.locator("#answer .verdict").inner_text()
    )


def test_wrong_fields_are_told_beside_them_while_typing(open_page: Opener) -> None:
    page = open_page(QUERY)
    model = page.get_by_role("combobox", name="Model", exact=True)
    model.fill("lama-3.1-8b")
    error = page.locator("#model_name-error")
    expect(error).to_contain_text("did you mean llama-3.1-8b")
    expect(model).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_role("alert")).to_contain_text("1 field needs another value.")
    model.fill("llama-3.1-8b")
    expect(error).to_have_count(0)
    expect(model).not_to_have_attribute("aria-invalid", "true")
    answered(page)


def test_defaults_are_shown_with_their_reasons(open_page: Opener) -> None:
    page = open_page(QUERY)
    page.get_by_text("Training run").click()
    now = page.locator("#seq_len-now")
    expect(now).to_contain_text("8,192")
    expect(now).to_contain_text("our convention")
    page.get_by_label("Sequence length in tokens").fill("4096")
    answered(page)
    expect(now).to_have_count(0)


def test_a_config_file_is_enough(open_page: Opener, tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(CONFIG))
    page = open_page("/")
    page.get_by_label("Budget in US dollars").fill("5000")
    page.get_by_text("Another model: a size, or a config.json").click()
    page.get_by_label("config.json, as a file").set_input_files(file)
    answered(page)
    expect(page.locator("#answer")).to_contain_text("1,235,814,400")
    # Such a question has an address too: the config fits into it.
    shared = page.locator("[data-share]").get_attribute("href")
    assert shared is not None
    again = open_page(shared)
    expect(again.locator("#answer")).to_contain_text("1,235,814,400")


def test_plots_are_drawn_and_lead_to_their_plans(open_page: Opener, pictures: Path) -> None:
    page = open_page(QUERY, viewport={"width": 1440, "height": 1000})
    page.locator("#plots").scroll_into_view_if_needed()
    page.get_by_role("heading", name="Cost against time").scroll_into_view_if_needed()
    figure = page.locator("section.figure", has_text="Filled points are beaten by no plan")
    expect(figure.locator(".picture.drawn .point").first).to_be_visible()
    figure.screenshot(path=pictures / "cost_and_time.png")
    point = figure.locator(".picture .point").first.bounding_box()
    assert point is not None
    page.mouse.move(point["x"] + point["width"] / 2, point["y"] + point["height"] / 2)
    expect(figure.locator(".hovertext")).to_contain_text("micro batch")
    page.mouse.click(point["x"] + point["width"] / 2, point["y"] + point["height"] / 2)
    page.wait_for_url("**/?*min_instances=*")
    expect(page.locator("#answer .verdict")).to_contain_text("Train llama-3.1-8b on")


def test_numbers_open_their_formula(open_page: Opener) -> None:
    page = open_page(QUERY)
    figure = page.locator(".figures > div", has_text="Tokens/s")
    figure.locator("summary").click()
    expect(figure.locator(".formula")).to_contain_text("Source:")
    expect(figure.locator(".formula .written")).to_be_visible()
    # Each of the figures at the top, and each term of the bars, has one.
    assert page.locator(".figures > div details.explain").count() == 8
    terms = page.locator(".legend tbody tr")
    others = page.locator(".legend tbody tr", has_text="other:")
    assert page.locator(".legend details.explain").count() == terms.count() - others.count()


def test_without_scripts_the_page_is_complete(open_page: Opener) -> None:
    page = open_page("/", java_script_enabled=False)
    page.get_by_role("combobox", name="Model", exact=True).fill("llama-3.1-8b")
    page.get_by_label("Budget in US dollars").fill("20000")
    page.get_by_role("button", name="Find settings", exact=True).click()
    expect(page.locator("#answer .verdict")).to_contain_text("Train llama-3.1-8b on")
    page.get_by_role("link", name="open the plots").click()
    expect(page.get_by_role("heading", name="More instances")).to_be_visible()
    page.locator("summary", has_text="Table").first.click()
    expect(page.get_by_role("rowheader", name="selective").first).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("link", name="This table as CSV").first.click()
    assert download.value.suggested_filename.endswith("-micro_batch.csv")


def test_the_keyboard_is_enough(open_page: Opener) -> None:
    page = open_page("/")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "model_name"
    page.keyboard.type("llama-3.1-8b")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "budget_usd"
    page.keyboard.type("20000")
    page.keyboard.press("Enter")
    answered(page)
    # Typing went on undisturbed while the answer came.
    assert page.evaluate("document.activeElement.id") == "budget_usd"


def test_the_first_view_is_light(open_page: Opener) -> None:
    page = open_page("/results")
    sizes: list[int] = []
    page.on("requestfinished", lambda request: sizes.append(request.sizes()["responseBodySize"]))
    for path in ("/", QUERY):
        sizes.clear()
        page.goto(path, wait_until="networkidle")
        assert sizes
        assert sum(sizes) < MAX_PAGE_BYTES, sizes
