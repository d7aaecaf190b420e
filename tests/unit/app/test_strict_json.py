"""Strict JSON: what is read, and what is refused with a reason."""

import pytest

from app.strict_json import MAX_DEPTH, StrictJsonError, parse_json


def test_plain_json_is_read() -> None:
    assert parse_json(b'\xef\xbb\xbf{"a": [1, 2.5, "\xc3\xa9", null, true]}') == {
        "a": [1, 2.5, "é", None, True]
    }


def test_a_whole_surrogate_pair_is_one_character() -> None:
    assert parse_json('"\\ud83d\\ude00"') == "😀"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"\xff", "UTF-8"),
        (b'{"a": }', "line 1, column 7"),
        (b"NaN", "NaN"),
        (b"[-Infinity]", "-Infinity"),
        (b"1e999", "too large"),
        (b"9" * 5000, "digits"),
        (b"[" * 100_000, "deep"),
        (b"[" * (MAX_DEPTH + 2) + b"]" * (MAX_DEPTH + 2), "deep"),
        (b'"\\ud800"', "surrogate"),
        (b'{"\\ud800": 1}', "surrogate"),
        (b'["\\u0000"]', "NUL"),
        (b"", "not JSON"),
    ],
)
def test_refused_with_a_reason(text: bytes, reason: str) -> None:
    with pytest.raises(StrictJsonError, match=reason):
        parse_json(text)
