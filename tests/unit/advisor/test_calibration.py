"""Calibration: weighted medians drawn to a prior, and spreads of errors that left sources out."""

import math

import pytest

from advisor.calibration import (
    MIN_POINTS,
    PRIOR_INTERVAL,
    PRIOR_SCALE,
    Point,
    calibrate,
    left_out_errors,
    with_spread_of,
)


def rows(source: str, errors: list[float], group: str = "group") -> list[Point]:
    return [
        Point(result_id=f"{source}-{n}", source=source, group=group, error=error)
        for n, error in enumerate(errors)
    ]


def test_no_rows_keep_the_prior_and_a_wide_interval() -> None:
    residual = calibrate([], {"group": 1.05})["group"]
    assert residual.factor == 1.05
    assert (residual.interval, residual.scale) == (PRIOR_INTERVAL, PRIOR_SCALE)
    assert (residual.count, residual.num_sources) == (0, 0)


def test_few_rows_lean_on_the_prior_and_many_do_not() -> None:
    few = calibrate(rows("one", [0.2]), {"group": 1.0})["group"]
    many = calibrate(
        [row for n in range(30) for row in rows(f"source{n}", [0.2] * 4)], {"group": 1.0}
    )["group"]
    # One row weighs 1 against the prior's 2.
    assert math.log(few.factor) == pytest.approx(0.2 / 3)
    assert math.log(many.factor) == pytest.approx(0.2, rel=0.05)


def test_one_long_table_does_not_decide_alone() -> None:
    long = rows("long", [0.5] * 100)
    short = [row for n in range(11) for row in rows(f"short{n}", [0.0])]
    # The table weighs √100 = 10, the eleven others 11.
    assert calibrate([*long, *short], {"group": 1.0})["group"].factor == pytest.approx(1.0)


def test_an_outlier_does_not_move_the_factor() -> None:
    plain = [row for n in range(25) for row in rows(f"s{n}", [0.1])]
    spoilt = [*plain[:-1], *rows("s24", [5.0])]
    first, second = (calibrate(each, {"group": 1.0})["group"] for each in (plain, spoilt))
    assert first.factor == pytest.approx(second.factor)


def test_errors_leave_the_points_own_source_out() -> None:
    points = [*rows("one", [0.3, 0.3]), *rows("two", [0.0])]
    left = left_out_errors(points, {"group": 1.0})
    # One's rows against two's factor (0 with the prior): all of their error is left.
    assert left[0] == pytest.approx(0.3)
    # Two's row against one's: weight √2 of 0.3 with the prior's 2 of 0.
    assert left[2] == pytest.approx(-0.3 * math.sqrt(2) / (math.sqrt(2) + 2))


def test_a_small_group_uses_the_spread_of_all() -> None:
    large = [row for n in range(30) for row in rows(f"s{n}", [0.1 * (-1) ** n])]
    small = rows("other", [0.0, 0.0], group="small")
    found = calibrate([*large, *small], {"group": 1.0, "small": 1.0})
    # Its own two errors are nothing; those of the large group are at least a tenth.
    assert found["small"].interval >= 0.1
    assert found["small"].count == 2


def test_spread_of_a_part_needs_enough_rows() -> None:
    residual = calibrate([], {"group": 1.0})["group"]
    assert with_spread_of(residual, [0.1] * (MIN_POINTS - 1)) == residual
    assert with_spread_of(residual, [0.1] * MIN_POINTS).interval == pytest.approx(0.1)
