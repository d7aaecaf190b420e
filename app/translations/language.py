"""Language of a page: what the reader chose, else what the browser prefers, else English."""

from contextvars import ContextVar
from typing import Literal

from babel.core import negotiate_locale

Language = Literal["en", "ja"]
# In the order of the switch, each by its own name.
NAMES: dict[Language, str] = {"en": "English", "ja": "日本語"}
COOKIE = "language"
# Which one the running request is answered in.
LANGUAGE: ContextVar[Language] = ContextVar("language", default="en")
# A header of more choices than these is no browser's.
_MAX_CHOICES = 20


def language_of(chosen: str, accepted: str) -> Language:
    """The language for a cookie's value and an Accept-Language header; either may be empty."""
    found = _known(chosen)
    if found is None:
        choices = sorted(
            map(_choice, accepted.split(",")[:_MAX_CHOICES]), key=lambda each: -each[1]
        )
        wanted = [tag for tag, quality in choices if quality > 0]
        found = _known(negotiate_locale(wanted, list(NAMES), sep="-") or "")
    return found or "en"


def _known(text: str) -> Language | None:
    return next((name for name in NAMES if name == text), None)


def _choice(text: str) -> tuple[str, float]:
    """A tag and its quality, 1 where none is given; what cannot be read counts for nothing."""
    tag, _, parameter = text.strip().partition(";")
    if not parameter:
        return tag.strip(), 1.0
    try:
        return tag.strip(), float(parameter.strip().removeprefix("q="))
    except ValueError:
        return tag.strip(), 0.0
