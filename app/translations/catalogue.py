"""Catalogue: the messages of one language, looked up by their English, or by their form.

A page's own words are looked up as they stand. What the advisor and the checks say is English with
figures in it, in the JSON as on the page: such a sentence is recognised by the form that made it
("{0} needs {1} GiB"), and what fills its places is translated in turn.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from gettext import GNUTranslations, NullTranslations
from importlib.resources import files
from io import BytesIO
from string import Formatter

from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po

from advisor.plan import CHECKPOINTINGS, GRADIENT_SYNCS, OPTIMIZERS, PRECISIONS
from app.translations.language import LANGUAGE, Language

# Longer texts are files and logs, not sentences.
_MAX_CHARS = 1000
# Between sentences that are told together: no form reaches across, unless it has one of its own.
_JOINT = "; "
_MARKS = tuple(";:,.")
# A form with fewer letters of its own would be found in anything.
_MIN_LETTERS = 4
_MAX_DEPTH = 6
_MIN_ENDING = 20
# Values of settings: the same in every language, for they are what one types.
_KEPT = frozenset({*CHECKPOINTINGS, *PRECISIONS, *GRADIENT_SYNCS, *OPTIMIZERS, "hybrid", ""})


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A sentence with places: the pieces between them, and the sentence in the other language."""

    pieces: tuple[str, ...]
    places: tuple[int, ...]
    told: str

    @property
    def weight(self) -> int:
        """Letters of its own: of two forms that fit, the heavier says more."""
        return sum(character.isalpha() for piece in self.pieces for character in piece)

    @property
    def has_joint(self) -> bool:
        """Whether it is itself of two parts."""
        return any(_JOINT in piece for piece in self.pieces)

    def match(self, text: str) -> dict[int, str] | None:
        """What fills each place, as little as will do from the left; None where it does not fit."""
        first, *middle = self.pieces
        if not text.startswith(first):
            return None
        at = len(first)
        filled = []
        for piece in middle[:-1]:
            end = text.find(piece, at + 1)
            if end < 0:
                return None
            filled.append(text[at:end])
            at = end + len(piece)
        end = len(text) - len(middle[-1])
        if end <= at or not text.endswith(middle[-1]):
            return None
        return dict(zip(self.places, [*filled, text[at:end]], strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """gettext's messages, and the forms among them, the heaviest first.

    endings: messages that something is put before, such as the name of what they are said of.
    """

    messages: NullTranslations
    forms: tuple[Form, ...] = ()
    endings: tuple[tuple[str, str], ...] = ()

    def told(self, text: str, depth: int = 0) -> str:
        """The text in this language; as it is where nothing says it."""
        if len(text) > _MAX_CHARS or depth > _MAX_DEPTH or text in _KEPT or not text.strip():
            return text
        exact = self.messages.gettext(text)
        if exact != text:
            return exact
        for form in self.forms:
            if _JOINT in text and not form.has_joint:
                continue
            filled = form.match(text)
            if filled is not None:
                values = {place: self.told(each, depth + 1) for place, each in filled.items()}
                return Formatter().vformat(form.told, _by_place(values), {})
        for english, other in self.endings:
            before = text.removesuffix(english)
            if before != text and before[-1:] not in _MARKS:
                return f"{self.told(before, depth + 1)}{other}"
        return self._in_parts(text, depth)

    def _in_parts(self, text: str, depth: int) -> str:
        """A text of several, each translated by itself."""
        for mark in (_JOINT, ". ", ": ", ", "):
            if mark in text:
                return mark.join(self.told(part, depth + 1) for part in text.split(mark))
        return text


def _by_place(values: dict[int, str]) -> Sequence[str]:
    return [values.get(place, "") for place in range(max(values) + 1)]


@cache
def catalogue(language: Language) -> Catalogue:
    """The catalogue of a language, read once. English says what the code says."""
    if language == "en":
        return Catalogue(messages=NullTranslations())
    with files(__package__).joinpath(f"{language}.po").open("rb") as file:
        read = read_po(file, locale=language)
    compiled = BytesIO()
    write_mo(compiled, read)
    compiled.seek(0)
    forms = [
        form_of(each.id, str(each.string))
        for each in read
        if isinstance(each.id, str) and each.string and "{0}" in each.id
    ]
    kept = [form for form in forms if form.weight >= _MIN_LETTERS]
    endings = [
        (f" {each.id}", f" {each.string}")
        for each in read
        if isinstance(each.id, str) and each.string and len(each.id) >= _MIN_ENDING
    ]
    return Catalogue(
        messages=GNUTranslations(compiled),
        endings=tuple(sorted(endings, key=lambda pair: -len(pair[0]))),
        # Of two that weigh the same, the one with more places says more of each.
        forms=tuple(sorted(kept, key=lambda form: (-form.weight, -len(form.pieces)))),
    )


def form_of(english: str, told: str) -> Form:
    """The form that a message with {0}, {1} … stands for. Raises ValueError without a place."""
    parts = list(Formatter().parse(english))
    pieces = [literal for literal, _, _, _ in parts]
    places = [int(name) for _, name, _, _ in parts if name]
    if not places:
        raise ValueError(f"no place in {english!r}")
    if len(pieces) == len(places):
        pieces.append("")
    return Form(pieces=tuple(pieces), places=tuple(places), told=told)


@lru_cache(maxsize=8192)
def _told(language: Language, text: str) -> str:
    return catalogue(language).told(text)


def told(text: str) -> str:
    """A sentence of the advisor, of a check or of an error in the reader's language."""
    language = LANGUAGE.get()
    return text if language == "en" else _told(language, text)


def gettext(message: str) -> str:
    """A page's own words in the reader's language."""
    return catalogue(LANGUAGE.get()).messages.gettext(message)


def ngettext(one: str, many: str, number: int) -> str:
    """A page's own words for a number of things."""
    return catalogue(LANGUAGE.get()).messages.ngettext(one, many, number)
