"""The catalogue: sentences recognised by their form, and everything said in each language."""

import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.translations.catalogue import Catalogue, catalogue, form_of, gettext, ngettext, told
from app.translations.extract import messages, missing
from app.translations.language import LANGUAGE


@pytest.fixture
def japanese() -> Iterator[None]:
    token = LANGUAGE.set("ja")
    yield
    LANGUAGE.reset(token)


def test_every_message_is_said_in_japanese() -> None:
    assert missing("ja") == []


def test_translations_have_the_places_of_their_messages() -> None:
    entries = getattr(catalogue("ja").messages, "_catalog")  # noqa: B009 - it has no public name
    seen = 0
    for english, other in entries.items():
        if isinstance(english, str) and english:
            assert places(other) == places(english), english
            seen += bool(places(english))
    assert seen > 100


def test_the_extraction_sees_templates_code_and_sentences() -> None:
    found = {each.id for each in messages()}
    # Of a template, of a call, of an f-string, of a form's field, and of a term.
    for text in (
        "Settings, and why",
        "{0} days",
        "{0}: needs {1} of {2} GiB, {3}",
        "Budget in US dollars",
        "gathered parameters",
    ):
        assert text in found


@pytest.mark.usefixtures("japanese")
def test_a_sentence_is_recognised_by_its_form() -> None:
    told_text = told("1: needs 190.1 of 177.4 GiB, out of memory with probability 83%")
    assert "190.1" in told_text
    assert "83%" in told_text
    assert "メモリ不足" in told_text
    assert "needs" not in told_text


@pytest.mark.usefixtures("japanese")
def test_what_no_form_made_stays_as_it_is() -> None:
    for text in ("", "  ", "llama-3.1-8b", "p5.48xlarge", "x" * 5000):
        assert told(text) == text


def test_english_says_what_the_code_says() -> None:
    assert told("same cost, same time") == "same cost, same time"
    assert gettext("Settings, and why") == "Settings, and why"
    assert ngettext("one", "many", 2) == "many"


@given(st.lists(st.text(max_size=20), min_size=2, max_size=2))
def test_what_fills_the_places_is_kept(values: list[str]) -> None:
    form = form_of("needs {0} of {1} GiB here", "{1} GiB のうち {0}")
    text = f"needs {values[0]} of {values[1]} GiB here"
    filled = form.match(text)
    if filled is None:
        # Places are never empty.
        assert "" in values
        return
    assert f"needs {filled[0]} of {filled[1]} GiB here" == text


def test_the_form_that_says_more_wins() -> None:
    own = Catalogue(
        messages=catalogue("en").messages,
        forms=tuple(
            sorted(
                (form_of("out of {0}", "A {0}"), form_of("out of memory on {0}", "B {0}")),
                key=lambda form: -form.weight,
            )
        ),
    )
    assert own.told("out of memory on p5") == "B p5"
    assert own.told("out of luck") == "A luck"


@given(st.text(max_size=300))
def test_any_text_is_taken(text: str) -> None:
    token = LANGUAGE.set("ja")
    try:
        assert isinstance(told(text), str)
    finally:
        LANGUAGE.reset(token)


def places(text: str) -> set[str]:
    """Of both kinds: {0} or {name}, and %(name)s; and whether a percent sign is doubled."""
    return set(re.findall(r"\{\w+\}|%\(\w+\)s|%%", text))
