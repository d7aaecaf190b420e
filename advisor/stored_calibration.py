"""Stored calibration: Evidence as plain values, and back from them without fitting anything."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from advisor.errors import InvalidField
from advisor.evidence import Evidence, calibration_version, cases_of, fitted_values
from advisor.neighbours import Neighbourhood
from advisor.residual import Residual
from advisor.result import Result
from advisor.throughput_factors import ThroughputFactors


def values_of(evidence: Evidence) -> dict[str, Any]:
    """Every fitted number, ready for JSON, which keeps floats exactly."""
    return {
        "memory": {name: asdict(residual) for name, residual in evidence.memory.items()},
        "throughput": asdict(evidence.throughput),
        "other_throughput": asdict(evidence.other_throughput),
        "factors": asdict(evidence.factors),
    }


def evidence_from(values: Mapping[str, Any], results: Sequence[Result], version: str) -> Evidence:
    """The Evidence of this version: the stored numbers, and the results that it was made from.

    Raises InvalidField when the results are no longer the ones that the version names.
    """
    cases = tuple(cases_of(results))
    evidence = Evidence(
        memory={name: Residual(**entry) for name, entry in values["memory"].items()},
        throughput=Residual(**values["throughput"]),
        other_throughput=Residual(**values["other_throughput"]),
        factors=ThroughputFactors(**values["factors"]),
        cases=cases,
        neighbourhood=Neighbourhood.of(cases),
        version=version,
        fitted={},
    )
    if calibration_version(evidence, results) != version:
        raise InvalidField(
            "calibration_version",
            f"the results behind {version} are no longer stored as they were; leave it out",
        )
    return replace(evidence, fitted=fitted_values(evidence))
