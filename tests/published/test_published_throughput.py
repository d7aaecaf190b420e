"""Predicted against published speeds, each source predicted without its own rows."""

from functools import cache
from importlib import resources

import numpy as np
import pytest

from advisor.settings import FloatArray
from advisor.throughput_factors import ThroughputFactors, load_factors
from advisor.throughput_fit import Fold, factors_toml, left_out, training_cases

MEDIAN, P90 = 0.10, 0.25
# Sources with enough rows to speak of a median of their own, and what it may be.
BY_SOURCE = {"llmfoundry": 0.10, "fmsfsdp": 0.10, "titan": 0.12, "torchtune": 0.10, "bw-llmq": 0.16}


@cache
def folds() -> dict[str, Fold]:
    return left_out(training_cases())


def sizes(errors: FloatArray) -> FloatArray:
    return np.abs(np.expm1(-errors))


def test_errors_leaving_one_source_out() -> None:
    found = sizes(np.concatenate([fold.errors for fold in folds().values()]))
    assert found.size >= 250
    assert np.median(found) <= MEDIAN
    assert np.quantile(found, 0.9) <= P90


@pytest.mark.parametrize("source", sorted(BY_SOURCE))
def test_errors_of_a_source(source: str) -> None:
    assert np.median(sizes(folds()[source].errors)) <= BY_SOURCE[source]


def test_the_shipped_factors_are_those_of_the_fit() -> None:
    path = resources.files("advisor").joinpath("data/throughput_factors.toml")
    assert path.read_text(encoding="utf-8") == factors_toml(folds())


def test_factors_hold_without_any_one_source() -> None:
    shipped = load_factors()
    for source in folds():
        other = load_factors(source)
        assert isinstance(other, ThroughputFactors)
        assert other.matmul == pytest.approx(shipped.matmul, rel=0.10)
        assert other.attention == pytest.approx(shipped.attention, rel=0.10)
