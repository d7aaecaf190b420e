"""The report of the factors: each with its prior, its interval and the rows behind it."""

import math

from advisor.evidence import MEMORY_PRIORS, Evidence
from advisor.factor_report import FACTOR_WORDS, factor_lines
from advisor.result import load_shipped_results
from advisor.throughput_fit import FITTED

LINES = {line.name: line for line in factor_lines(Evidence.from_results(load_shipped_results()))}


def test_every_factor_is_there() -> None:
    assert set(LINES) == {
        *MEMORY_PRIORS,
        *FACTOR_WORDS,
        *("tokens_per_s", "tokens_per_s/other"),
    }


def test_rows_are_as_many_as_counted() -> None:
    shipped = {result.id for result in load_shipped_results()}
    for line in LINES.values():
        assert len(line.result_ids) == line.count
        assert set(line.result_ids) <= shipped


def test_intervals_hold_the_value_and_untold_factors_have_none() -> None:
    for name, line in LINES.items():
        if line.low is None or line.high is None:
            assert name not in FITTED
            assert line.value == line.prior
        else:
            assert line.low < line.value < line.high


def test_without_rows_the_prior_stands_with_the_spread_assumed() -> None:
    lines = {line.name: line for line in factor_lines(Evidence.from_results([]))}
    matmul = lines["matmul"]
    assert matmul.count == 0
    assert matmul.high is not None
    assert math.log(matmul.high / matmul.value) > math.log(
        (LINES["matmul"].high or 0.0) / LINES["matmul"].value
    )
