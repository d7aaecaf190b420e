"""Calibration: the few factors between the laws and what runs report, fitted robustly.

A point is one stored result: its source, its group and log(measured / predicted). Sources weigh
with the square root of their rows, so that one large table does not decide alone. A group with few
rows leans on its prior.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from advisor.residual import Residual, conformal_half_width, scale_of, weighted_median

# Weight of a prior, in rows of a source of its own.
PRIOR_WEIGHT = 2.0
# Groups with fewer points than this use the errors of all groups for their spread.
MIN_POINTS = 20
# Spread that is assumed before there are any points: ±25 % for a 90 % interval.
PRIOR_INTERVAL = math.log(1.25)
PRIOR_SCALE = PRIOR_INTERVAL / 2.1318467863266500


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """log(measured / predicted) of one result."""

    result_id: str
    source: str
    group: str
    error: float


def calibrate(points: Sequence[Point], priors: Mapping[str, float]) -> Mapping[str, Residual]:
    """A Residual for each group in `priors` (factors by group).

    Spreads come from predictions that left the point's own source out of the fit.
    """
    errors = list(
        zip((point.group for point in points), left_out_errors(points, priors), strict=True)
    )
    pooled = [error for _, error in errors]
    residuals = {}
    for group, prior in priors.items():
        own = [point for point in points if point.group == group]
        own_errors = [error for name, error in errors if name == group]
        spread = own_errors if len(own_errors) >= MIN_POINTS else pooled
        residuals[group] = Residual(
            factor=_factor(own, prior),
            scale=_scale(spread),
            interval=_interval(spread),
            count=len(own),
            num_sources=len({point.source for point in own}),
        )
    return residuals


def _factor(points: Sequence[Point], prior: float) -> float:
    """Weighted median of the errors, drawn towards the prior; as a factor."""
    if not points:
        return prior
    rows = Counter(point.source for point in points)
    weights = [1.0 / math.sqrt(rows[point.source]) for point in points]
    middle = weighted_median([point.error for point in points], weights)
    total = sum(weights)
    drawn = (total * middle + PRIOR_WEIGHT * math.log(prior)) / (total + PRIOR_WEIGHT)
    return math.exp(drawn)


def with_spread_of(residual: Residual, errors: Sequence[float]) -> Residual:
    """The residual with the spread of these errors alone; as it is where they are too few."""
    if len(errors) < MIN_POINTS:
        return residual
    return replace(residual, scale=_scale(errors), interval=_interval(errors))


def left_out_errors(points: Sequence[Point], priors: Mapping[str, float]) -> list[float]:
    """The error of each point around the factor that was fitted without the point's source."""
    factors: dict[tuple[str, str], float] = {}
    errors = []
    for point in points:
        key = (point.source, point.group)
        if key not in factors:
            others = [
                other
                for other in points
                if other.group == point.group and other.source != point.source
            ]
            factors[key] = math.log(_factor(others, priors[point.group]))
        errors.append(point.error - factors[key])
    return errors


def _scale(errors: Sequence[float]) -> float:
    return scale_of(errors) if len(errors) >= MIN_POINTS else PRIOR_SCALE


def _interval(errors: Sequence[float]) -> float:
    width = conformal_half_width(errors)
    return width if math.isfinite(width) and len(errors) >= MIN_POINTS else PRIOR_INTERVAL
