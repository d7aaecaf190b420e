"""Accuracy plots: places of points, ticks and bands in drawings that need no script."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.views import as_web_link

# A drawing's own units: a square plot with room for labels at the left and below.
SIZE, LEFT, BOTTOM = 400.0, 56.0, 36.0
BAND = 0.10
MAX_COLOURS = 7
_STEPS = (1.0, 2.0, 5.0)
_MEASURES = {
    "memory": ("peak_mem_gib", "predicted_mem_gib", "GiB"),
    "throughput": ("tokens_per_s_per_gpu", "predicted_tokens_per_s_per_gpu", "tokens/s/GPU"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One result. x is measured, y predicted; colour the number of a style class."""

    x: float
    y: float
    colour: int
    text: str
    link: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scatter:
    """Predicted over measured, both logarithmic, with a band of ±BAND around equality."""

    name: str
    unit: str
    points: tuple[Point, ...]
    ticks: tuple[tuple[float, float, str], ...]
    band: str
    legend: tuple[tuple[int, str], ...]


def scatter(rows: Sequence[Mapping[str, Any]], name: str, colour_by: str) -> Scatter | None:
    """The plot of "memory" or "throughput"; None when no row has both figures.

    Colours go to the most frequent values of `colour_by`; the others share the last.
    """
    measured, predicted, unit = _MEASURES[name]
    shown = [row for row in rows if row[measured] is not None and row[predicted] is not None]
    if not shown:
        return None
    values = [value for row in shown for value in (row[measured], row[predicted])]
    low, high = math.log10(min(values) / 1.15), math.log10(max(values) * 1.15)
    colours = _colours([row[colour_by] for row in shown])

    def place(value: float) -> float:
        return round(SIZE * (math.log10(value) - low) / (high - low), 1)

    return Scatter(
        name=name,
        unit=unit,
        points=tuple(
            Point(
                x=place(row[measured]),
                y=round(SIZE - place(row[predicted]), 1),
                colour=colours.get(row[colour_by], MAX_COLOURS),
                text=f"{row['id']}: measured {row[measured]:,.4g}, predicted "
                f"{row[predicted]:,.4g} {unit} ({row[colour_by]})",
                link=as_web_link(row["source_url"]),
            )
            for row in shown
        ),
        ticks=tuple(
            (place(value), SIZE - place(value), _tick_text(value)) for value in _ticks(values)
        ),
        band=_band(low, high),
        legend=(
            *((number, value) for value, number in colours.items()),
            *(((MAX_COLOURS, "others"),) if len(colours) == MAX_COLOURS else ()),
        ),
    )


def reliability_points(table: Sequence[Mapping[str, Any]]) -> tuple[Point, ...]:
    """Share that ran out of memory (y) over the mean predicted chance (x), by group of chance."""
    return tuple(
        Point(
            x=round(SIZE * row["mean_probability"], 1),
            y=round(SIZE * (1.0 - row["oom_fraction"]), 1),
            colour=0,
            text=f"{row['count']} runs: predicted {row['mean_probability']:.1%}, "
            f"ran out of memory {row['oom_fraction']:.1%}",
            link=None,
        )
        for row in table
        if row["count"]
    )


def _colours(values: Sequence[str]) -> dict[str, int]:
    often = sorted(set(values), key=lambda value: (-values.count(value), value))
    return {value: number for number, value in enumerate(often[:MAX_COLOURS])}


def _ticks(values: Sequence[float]) -> list[float]:
    """Round values within the range of the plot, about three a decade."""
    first, last = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    round_values = [step * 10.0**power for power in range(first, last + 1) for step in _STEPS]
    return [value for value in round_values if min(values) <= value <= max(values)]


def _tick_text(value: float) -> str:
    return f"{value / 1000:g}k" if value >= 1000 else f"{value:g}"


def _band(low: float, high: float) -> str:
    """Corners of the band where predicted / measured is within 1 ± BAND, as an SVG polygon."""
    up = SIZE * math.log10(1.0 + BAND) / (high - low)
    down = SIZE * math.log10(1.0 - BAND) / (high - low)
    corners = [(0.0, SIZE - up), (SIZE, -up), (SIZE, -down), (0.0, SIZE - down)]
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
