"""Predicted against published speeds, each source predicted without its own rows."""

from dataclasses import fields
from functools import cache
from importlib import resources
from pathlib import Path

import numpy as np
import pytest

from advisor.settings import FloatArray
from advisor.throughput_factors import ThroughputFactors, load_factors
from advisor.throughput_fit import Fold, factors_toml, left_out, training_cases, with_table

DOCUMENT = Path(__file__).parents[2] / "docs" / "throughput.md"
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


def test_the_document_has_the_table_of_the_fit() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert text == with_table(text, folds())


def test_the_document_names_every_factor() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert [field.name for field in fields(ThroughputFactors) if field.name not in text] == []


def test_a_document_without_a_place_for_the_table_is_refused() -> None:
    with pytest.raises(ValueError, match="no place"):
        with_table("nothing here", folds())
