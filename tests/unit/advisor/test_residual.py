"""The residual distribution and the robust fit."""

import math

import pytest

from advisor.calibration import PRIOR_INTERVAL, Point, calibrate
from advisor.residual import conformal_half_width, scale_of, student_t4_cdf, weighted_median

PRIORS = {"reserved/eager": 1.05}


def points(errors: list[float], source: str = "a") -> list[Point]:
    return [
        Point(result_id=f"{source}-{i}", source=source, group="reserved/eager", error=error)
        for i, error in enumerate(errors)
    ]


@pytest.mark.parametrize(
    ("x", "expected"), [(0.0, 0.5), (2.131847, 0.95), (-2.131847, 0.05), (3.746947, 0.99)]
)
def test_student_t4_matches_tables(x: float, expected: float) -> None:
    """Abramowitz and Stegun, table 26.10, four degrees of freedom."""
    assert float(student_t4_cdf(x)) == pytest.approx(expected, abs=1e-5)


def test_conformal_half_width_counts_itself() -> None:
    assert conformal_half_width([0.1 * i for i in range(1, 10)], coverage=0.9) == pytest.approx(0.9)
    assert conformal_half_width([0.1] * 5, coverage=0.9) == math.inf


def test_scale_has_the_median_absolute_error() -> None:
    scale = scale_of([-0.1, 0.1, 0.1])
    assert float(student_t4_cdf(0.1 / scale)) == pytest.approx(0.75, abs=1e-9)


def test_weighted_median_follows_the_weights() -> None:
    assert weighted_median([1.0, 2.0, 3.0], [1.0, 1.0, 5.0]) == 3.0


def test_without_points_the_prior_stands_with_a_wide_interval() -> None:
    residual = calibrate([], PRIORS)["reserved/eager"]
    assert residual.factor == 1.05
    assert residual.interval == PRIOR_INTERVAL
    assert residual.count == 0


def test_many_sources_outweigh_the_prior() -> None:
    found = [point for name in "abcdefghij" for point in points([math.log(1.2)] * 9, name)]
    residual = calibrate(found, PRIORS)["reserved/eager"]
    assert residual.factor == pytest.approx(1.2, rel=0.02)
    assert residual.num_sources == 10


def test_one_large_source_does_not_decide_alone() -> None:
    crowd = points([math.log(2.0)] * 100, "crowd")
    others = [point for name in "bcdefghijklm" for point in points([0.0], name)]
    assert calibrate(crowd + others, PRIORS)["reserved/eager"].factor < 1.1


def test_spread_comes_from_sources_left_out() -> None:
    """Two sources that disagree: each is predicted with the other's factor."""
    apart = points([0.0] * 15, "a") + points([0.4] * 15, "b")
    assert calibrate(apart, PRIORS)["reserved/eager"].interval > 0.15
