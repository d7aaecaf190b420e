"""JSON as strangers send it: no NaN, no unreadable text, no depth that breaks the reader."""

import json
import math
from typing import Any, NoReturn

MAX_DEPTH = 64


class StrictJsonError(ValueError):
    """Text that is not JSON, or JSON that cannot be used; the message is for people."""


def parse_json(data: bytes | str) -> Any:
    """The value that JSON text stands for. Raises StrictJsonError."""
    try:
        text = data.decode("utf-8-sig") if isinstance(data, bytes) else data
        value = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
    except UnicodeDecodeError:
        raise StrictJsonError("is not UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise StrictJsonError(
            f"is not JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        ) from None
    except RecursionError:
        raise StrictJsonError("is nested too deep") from None
    except StrictJsonError:
        raise
    except ValueError:
        raise StrictJsonError("has a number of too many digits") from None
    _check(value)
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise StrictJsonError(f"has {name}, which is not a number in JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise StrictJsonError(f"has a number that is too large: {text[:40]}")
    return number


def _check(root: object) -> None:
    """Refuse what later steps cannot store or send: deep nests, lone surrogates, NUL."""
    pending: list[tuple[object, int]] = [(root, 0)]
    while pending:
        value, depth = pending.pop()
        if depth > MAX_DEPTH:
            raise StrictJsonError(f"is nested more than {MAX_DEPTH} deep")
        if isinstance(value, str):
            _check_text(value)
        elif isinstance(value, dict):
            for key, each in value.items():
                _check_text(key)
                pending.append((each, depth + 1))
        elif isinstance(value, list):
            pending.extend((each, depth + 1) for each in value)


def _check_text(text: str) -> None:
    if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
        raise StrictJsonError("has text with half of a surrogate pair")
    if "\0" in text:
        raise StrictJsonError("has text with a NUL character")
