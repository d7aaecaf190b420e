"""Stored calibrations: numbers survive JSON exactly, and changed results are refused."""

import json
from dataclasses import replace

import pytest

from advisor.errors import InvalidField
from advisor.evidence import Evidence
from advisor.result import load_shipped_results
from advisor.stored_calibration import evidence_from, values_of

SHIPPED = load_shipped_results()
EVIDENCE = Evidence.from_results(SHIPPED)


def test_there_and_back_through_json() -> None:
    values = json.loads(json.dumps(values_of(EVIDENCE)))
    again = evidence_from(values, SHIPPED, EVIDENCE.version)
    for name in ("memory", "throughput", "other_throughput", "factors", "version", "fitted"):
        assert getattr(again, name) == getattr(EVIDENCE, name)
    assert again.cases == EVIDENCE.cases


def test_changed_or_missing_results_are_refused() -> None:
    values = values_of(EVIDENCE)
    changed = (*SHIPPED[:-1], replace(SHIPPED[-1], notes="changed"))
    for results in (changed, SHIPPED[1:]):
        with pytest.raises(InvalidField) as refused:
            evidence_from(values, results, EVIDENCE.version)
        assert refused.value.field == "calibration_version"


def test_changed_numbers_are_refused() -> None:
    values = values_of(EVIDENCE)
    values["factors"] = {**values["factors"], "matmul": 0.5}
    with pytest.raises(InvalidField):
        evidence_from(values, SHIPPED, EVIDENCE.version)
