"""Residual: how far predictions have been from measurements, as a distribution.

Errors are log(measured / predicted). Student's t with four degrees of freedom has the heavy tails
that such residuals show; its scale comes from the absolute errors, so that outliers count once.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from advisor.settings import Number

# Median of |t| with 4 degrees of freedom, and its two-sided 90 % quantile.
MEDIAN_ABS_T4 = 0.7406970841126829
QUANTILE_90_T4 = 2.1318467863266500
# Two-sided 90 % quantile of the normal distribution.
QUANTILE_90_NORMAL = 1.6448536269514722


@dataclass(frozen=True, slots=True, kw_only=True)
class Residual:
    """A factor with its spread.

    factor: multiplies a prediction. scale: of log(measured / predicted) around the factor, as the
    scale of Student's t with 4 degrees of freedom. interval: half width in log of the 90 % interval
    (conformal where there are enough residuals). count: rows, num_sources: their sources.
    """

    factor: float
    scale: float
    interval: float
    count: int
    num_sources: int


def student_t4_cdf(x: Number) -> Number:
    """Distribution function of Student's t with 4 degrees of freedom (closed form)."""
    u = np.asarray(x, dtype=np.float64)
    w = 1.0 / (1.0 + u * u / 4.0)
    value: NDArray[np.float64] = 0.5 + 0.375 * u * np.sqrt(w) * (1.0 - u * u * w / 12.0)
    return value


def student_t4_quantile(probability: float) -> float:
    """Quantile of Student's t with 4 degrees of freedom (closed form: Shaw 2006, section 2.4)."""
    if not 0.0 < probability < 1.0:
        return math.copysign(math.inf, probability - 0.5)
    alpha = 4.0 * probability * (1.0 - probability)
    root = math.sqrt(min(alpha, 1.0))
    ratio = math.cos(math.acos(root) / 3.0) / root
    return math.copysign(2.0 * math.sqrt(max(ratio - 1.0, 0.0)), probability - 0.5)


def conformal_half_width(errors: Sequence[float], coverage: float = 0.9) -> float:
    """The ⌈(n+1)·coverage⌉-th smallest absolute error: split-conformal half width.

    Reference: Lei et al. 2018, "Distribution-free predictive inference for regression", section 2.
    Returns infinity when there are too few errors for the coverage.
    """
    ordered = sorted(abs(error) for error in errors)
    rank = math.ceil((len(ordered) + 1) * coverage)
    return ordered[rank - 1] if 0 < rank <= len(ordered) else math.inf


def scale_of(errors: Sequence[float]) -> float:
    """Scale of Student's t (4) with the median absolute value of `errors`."""
    return float(np.median(np.abs(np.asarray(errors)))) / MEDIAN_ABS_T4


def weighted_median(values: Sequence[float], weights: Sequence[float]) -> float:
    """Lower weighted median. Values and weights have one length, at least one value."""
    order = np.argsort(np.asarray(values), kind="stable")
    cumulative = np.cumsum(np.asarray(weights)[order])
    index = int(np.searchsorted(cumulative, cumulative[-1] / 2.0))
    return float(np.asarray(values)[order][index])
