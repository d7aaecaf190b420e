"""ConfigReader: values out of parsed JSON that anyone may have written."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from advisor.errors import InvalidField

MAX_TEXT = 200
_MAX_SHOWN = 60
_MAX_SHOWN_BITS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigReader:
    """One JSON object at a dotted path. A value of null is as good as no value.

    Every method raises InvalidField at `field`.<key> for a value of the wrong type or size, and
    no other error whatever the values are.
    """

    values: Mapping[str, object]
    field: str

    def where(self, key: str) -> str:
        """The dotted path of a key."""
        return f"{self.field}.{key}"

    def value(self, key: str) -> object:
        """The value itself; None when absent."""
        return self.values.get(key)

    def key_of(self, keys: Sequence[str]) -> str | None:
        """The first of these keys that has a value."""
        return next((key for key in keys if self.values.get(key) is not None), None)

    def integer(
        self, keys: Sequence[str], *, default: int | None, most: int, least: int = 1
    ) -> int:
        """A whole number from `least` to `most`; the default None means that it must be there."""
        key = self.key_of(keys)
        if key is None:
            if default is None:
                raise InvalidField(
                    self.where(keys[0]), f"is missing: add it, a whole number up to {most}"
                )
            return default
        value = self.values[key]
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise InvalidField(
                self.where(key),
                f"must be a whole number from {least} to {most}, not {shown(value)}",
            )
        return value

    def number(self, key: str, *, default: float, most: float, least: float = 0.0) -> float:
        """A number from `least` to `most`."""
        value = self.values.get(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InvalidField(self.where(key), f"must be a number, not {shown(value)}")
        if not least <= value <= most:
            raise InvalidField(
                self.where(key), f"must be from {least:g} to {most:g}, not {shown(value)}"
            )
        return float(value)

    def optional_number(self, key: str, *, most: float, least: float = 0.0) -> float | None:
        """A number, or None when absent."""
        if self.values.get(key) is None:
            return None
        return self.number(key, default=0.0, most=most, least=least)

    def flag(self, key: str, *, default: bool) -> bool:
        """True or false."""
        value = self.values.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise InvalidField(self.where(key), f"must be true or false, not {shown(value)}")
        return value

    def text(self, key: str, *, default: str) -> str:
        """A short text."""
        value = self.values.get(key)
        if value is None:
            return default
        if not isinstance(value, str) or len(value) > MAX_TEXT:
            raise InvalidField(
                self.where(key),
                f"must be a text of at most {MAX_TEXT} characters, not {shown(value)}",
            )
        return value

    def section(self, key: str) -> "ConfigReader | None":
        """The object under a key, or None when absent."""
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise InvalidField(self.where(key), f"must be a JSON object, not {shown(value)}")
        return ConfigReader(values=value, field=self.where(key))

    def texts(self, key: str, *, length: int) -> tuple[str, ...] | None:
        """A list of `length` texts, or None when absent."""
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, list | tuple) or len(value) != length:
            raise InvalidField(
                self.where(key),
                f"must be a list of {length} names, one a layer, not {shown(value)}",
            )
        for index, item in enumerate(value):
            if not isinstance(item, str):
                raise InvalidField(
                    f"{self.where(key)}.{index}", f"must be a name, not {shown(item)}"
                )
        return tuple(value)


def shown(value: object) -> str:
    """A value for an error message: short, and safe for any value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return repr(value[:_MAX_SHOWN])
    if isinstance(value, int):
        return str(value) if value.bit_length() <= _MAX_SHOWN_BITS else "a number of many digits"
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else "a number that is not finite"
    return (
        "a list" if isinstance(value, list | tuple) else f"a value of type {type(value).__name__}"
    )
