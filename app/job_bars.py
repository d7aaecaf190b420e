"""Job bars: what a job measures against the interval that was predicted, as boxes of a drawing."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from app.formatting import gibibytes, whole
from app.views import BAR_WIDTH

# The drawing goes on beyond the largest figure, so that a mark at its end is seen.
_ROOM = 1.05


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalBar:
    """Places on a drawing BAR_WIDTH wide that begins at zero, and the figures in words.

    measured_x: where the measured bar ends; None before anything is measured.
    """

    figure: Literal["speed", "memory"]
    low_x: float
    high_x: float
    predicted_x: float
    measured_x: float | None
    measured: str
    predicted: str
    low: str
    high: str


def speed_bar(compared: Mapping[str, Any]) -> IntervalBar:
    """Tokens per second of all GPUs. compared: of app.jobs.measured."""
    return _bar("speed", compared, whole)


def memory_bar(compared: Mapping[str, Any]) -> IntervalBar:
    """Peak bytes of a GPU. compared: of app.jobs.measured."""
    return _bar("memory", compared, gibibytes)


def _bar(
    figure: Literal["speed", "memory"],
    compared: Mapping[str, Any],
    words: Callable[[float | None], str],
) -> IntervalBar:
    low, high = compared["interval"]
    measured, predicted = compared["measured"], compared["predicted"]
    scale = BAR_WIDTH / (_ROOM * max(high, predicted, measured or 0.0))
    return IntervalBar(
        figure=figure,
        low_x=round(low * scale, 2),
        high_x=round(high * scale, 2),
        predicted_x=round(predicted * scale, 2),
        measured_x=None if measured is None else round(measured * scale, 2),
        measured=words(measured),
        predicted=words(predicted),
        low=words(low),
        high=words(high),
    )
