"""Rotary positions out of a Hugging Face config.json, in the old form and in the new one.

Old: rope_theta and rope_scaling beside the sizes. New (transformers 5): rope_parameters with both,
one object, or one for each kind of layer, of which the layers with full attention are read.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from advisor.config_reader import ConfigReader, shown
from advisor.errors import InvalidField

MAX_THETA = 1e12
MAX_SCALING_TEXT = 8192
# Names of scalings in transformers; the program that trains may know fewer, and says so.
KINDS = ("default", "linear", "dynamic", "yarn", "longrope", "su", "llama3", "proportional")
_THETAS = ("rope_theta", "rotary_emb_base")
_FRACTIONS = ("partial_rotary_factor", "rotary_pct", "rope_pct")
# They are fields of the shape themselves.
_NOT_SCALING = (*_THETAS, *_FRACTIONS, "type", "rope_type")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rope:
    """Base of the frequencies, share of a head that is rotated, and scaling as JSON or ""."""

    theta: float
    rotary_fraction: float
    scaling: str


def read_rope(config: ConfigReader, *, theta: float, rotary_fraction: float) -> Rope:
    """The rotary positions; the family's theta and fraction where the config has none.

    Raises InvalidField.
    """
    section = _parameters(config)
    places = [config] if section is None else [section, config]
    for place in reversed(places):
        theta = _first(place, _THETAS, default=theta, least=1.0, most=MAX_THETA)
        rotary_fraction = _first(place, _FRACTIONS, default=rotary_fraction, least=0.0, most=1.0)
    return Rope(theta=theta, rotary_fraction=rotary_fraction, scaling=_scaling(section))


def _parameters(config: ConfigReader) -> ConfigReader | None:
    section = config.section("rope_parameters") or config.section("rope_scaling")
    if section is None:
        return None
    return section.section("full_attention") or section


def _first(
    place: ConfigReader, keys: Sequence[str], *, default: float, least: float, most: float
) -> float:
    key = place.key_of(keys)
    if key is None:
        return default
    return place.number(key, default=default, least=least, most=most)


def _scaling(section: ConfigReader | None) -> str:
    """The scaling as JSON with sorted keys; empty where positions are not scaled."""
    if section is None:
        return ""
    key = section.key_of(("rope_type", "type")) or "rope_type"
    kind = section.text(key, default="default")
    if kind not in KINDS:
        raise InvalidField(
            section.where(key), f"must be one of {', '.join(KINDS)}, not {shown(kind)}"
        )
    if kind == "default":
        return ""
    values: dict[str, object] = {"rope_type": kind}
    for name, value in section.values.items():
        if name not in _NOT_SCALING and value is not None:
            values[str(name)] = _plain(section.where(str(name)[:40]), value)
    text = json.dumps(values, sort_keys=True)
    if len(text) > MAX_SCALING_TEXT:
        raise InvalidField(section.field, f"must be at most {MAX_SCALING_TEXT} characters long")
    return text


def _plain(where: str, value: object) -> object:
    """A number, a text, a flag, or a list of numbers."""
    items = value if isinstance(value, list | tuple) and len(value) <= MAX_SCALING_TEXT else [value]
    if isinstance(value, str | bool) and len(str(value)) <= MAX_SCALING_TEXT:
        return value
    for item in items:
        if isinstance(item, bool) or not isinstance(item, int | float):
            raise InvalidField(where, f"must be a number or a list of numbers, not {shown(item)}")
        if not -MAX_THETA <= item <= MAX_THETA:
            raise InvalidField(where, f"must be within ±{MAX_THETA:g}, not {shown(item)}")
    return value
