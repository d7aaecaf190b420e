"""The language of a page: a choice, else what the browser prefers, else English."""

import pytest

from app.translations.language import language_of


@pytest.mark.parametrize(
    ("chosen", "accepted", "language"),
    [
        ("", "", "en"),
        ("", "ja", "ja"),
        ("", "ja-JP,ja;q=0.9,en;q=0.8", "ja"),
        ("", "en-US,en;q=0.9,ja;q=0.8", "en"),
        ("", "de,ja;q=0.4,en;q=0.3", "ja"),
        ("", "fr", "en"),
        ("", "ja;q=0,en", "en"),
        ("", "en;q=0.2, ja;q=0.7", "ja"),
        ("", "ja;q=much,;;,=", "en"),
        ("", "*", "en"),
        ("ja", "en", "ja"),
        ("en", "ja", "en"),
        ("xx", "ja", "ja"),
        ("../etc", "", "en"),
        ("", "ja," * 10_000, "ja"),
    ],
)
def test_whose_word_counts(chosen: str, accepted: str, language: str) -> None:
    assert language_of(chosen, accepted) == language
