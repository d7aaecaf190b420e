"""Figure: a table with the picture that is drawn of it; as HTML, as CSV and as JSON alike."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

Kind = Literal["text", "whole", "gib", "usd", "duration", "percent", "flag"]
Drawn = Literal["lines", "dots", "bars", "dashes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """name: in CSV and JSON, with its unit. label: on the page. kind: how a page writes it."""

    name: str
    label: str
    kind: Kind = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Points that belong together. texts: what a pointer on each shows; links: where each leads.

    hollow: points that are drawn as not allowed. x may be names, where bars are drawn.
    """

    name: str
    x: tuple[float | str, ...]
    y: tuple[float | None, ...]
    texts: tuple[str, ...] = ()
    links: tuple[str | None, ...] = ()
    hollow: tuple[bool, ...] = ()
    drawn: Drawn = "lines"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A line across the picture at a value of one axis."""

    axis: Literal["x", "y"]
    value: float
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """Axes with their units, series and marks. y_max: where the drawing ends, whatever is above."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    marks: tuple[Mark, ...] = ()
    has_log_x: bool = False
    has_log_y: bool = False
    y_max: float | None = None
    is_stacked: bool = False

    def as_json_text(self) -> str:
        """What the page's script draws from."""
        return json.dumps(asdict(self), ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """name: in addresses. note: what the reader should know, a sentence."""

    name: str
    title: str
    note: str
    columns: tuple[Column, ...]
    rows: tuple[Mapping[str, Any], ...]
    pictures: tuple[Picture, ...]

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "name": self.name,
            "title": self.title,
            "note": self.note,
            "columns": [asdict(column) for column in self.columns],
            "rows": [dict(row) for row in self.rows],
            "pictures": [asdict(picture) for picture in self.pictures],
        }

    def as_csv(self) -> str:
        """The table with one header line; numbers unrounded, unknown ones empty."""
        text = io.StringIO()
        names = [column.name for column in self.columns]
        writer = csv.DictWriter(text, names, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        return text.getvalue()


def by_name(
    rows: Sequence[Mapping[str, Any]], key: str
) -> list[tuple[str, list[Mapping[str, Any]]]]:
    """Rows in groups with the same value of a column, in the order of their first."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault(str(row[key]), []).append(row)
    return list(found.items())
