"""Bars of a job: what is measured against the interval that was predicted."""

import pytest

from app.job_bars import memory_bar, speed_bar
from app.views import BAR_WIDTH


def compared(measured: float | None) -> dict[str, object]:
    return {"measured": measured, "predicted": 100.0, "interval": [80.0, 120.0]}


def test_places_are_shares_of_one_scale() -> None:
    bar = speed_bar(compared(90.0))
    assert bar.measured_x is not None
    places = (bar.low_x, bar.measured_x, bar.predicted_x, bar.high_x)
    scale = bar.high_x / 120.0
    assert places == pytest.approx([each * scale for each in (80, 90, 100, 120)], abs=0.01)
    assert (bar.measured, bar.predicted, bar.low, bar.high) == ("90", "100", "80", "120")


@pytest.mark.parametrize("measured", [0.0, 1.0, 1e6])
def test_nothing_leaves_the_drawing(measured: float) -> None:
    bar = speed_bar(compared(measured))
    assert bar.measured_x is not None
    for place in (bar.low_x, bar.high_x, bar.predicted_x, bar.measured_x):
        assert 0 <= place < BAR_WIDTH


def test_before_anything_is_measured_only_the_prediction_is_drawn() -> None:
    bar = memory_bar({"measured": None, "predicted": 2**30, "interval": [2**29, 2**31]})
    assert (bar.measured_x, bar.measured) == (None, "–")
    assert (bar.predicted, bar.low, bar.high) == ("1.0 GiB", "0.5 GiB", "2.0 GiB")
