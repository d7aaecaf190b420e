"""The accuracy on rows whose source was left out is documented, and never worse than recorded."""

import re
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from accuracy_document import DOCUMENT, document

from advisor.accuracy import accuracy_history, accuracy_report
from advisor.check import summarise
from advisor.evidence import OWN_ENGINE
from advisor.result import load_shipped_results
from advisor.stack import load_stacks

# A recorded figure has four digits; predictions differ in the last ones between processors.
SLACK = 0.002
NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    return accuracy_report(load_shipped_results())


@pytest.mark.parametrize("figure", ["memory", "throughput"])
def test_errors_are_not_worse_than_recorded(report: dict[str, Any], figure: str) -> None:
    recorded, now = accuracy_history()[-1], report["summary"][figure]
    assert now["count"] >= recorded[f"{figure}_rows"]
    assert now["median_abs_error"] <= recorded[f"{figure}_median"] + SLACK
    assert now["p90_abs_error"] <= recorded[f"{figure}_p90"] + SLACK


@pytest.mark.parametrize("figure", ["memory", "throughput"])
def test_intervals_cover_what_they_say(report: dict[str, Any], figure: str) -> None:
    assert 0.85 <= report["summary"][figure]["interval_coverage"] <= 0.95


@pytest.mark.parametrize("is_own", [True, False], ids=["fsdp2", "others"])
def test_speed_intervals_cover_what_they_say_by_kind_of_program(
    report: dict[str, Any], is_own: bool
) -> None:
    stacks = {name for name, stack in load_stacks().items() if stack.engine == OWN_ENGINE}
    rows = [row for row in report["rows"] if (row["stack"] in stacks) == is_own]
    assert 0.85 <= summarise(rows)["throughput"]["interval_coverage"] <= 0.95


def test_no_run_that_ran_is_refused_and_no_other_is_called_safe(report: dict[str, Any]) -> None:
    oom = report["summary"]["oom"]
    assert oom["ran_but_predicted_oom"] == 0
    assert oom["oom_but_predicted_fit"] == 0


def test_chances_rise_with_what_happens(report: dict[str, Any]) -> None:
    happened = [row["oom_fraction"] for row in report["reliability"] if row["count"]]
    assert happened == sorted(happened)
    assert happened[0] == 0.0
    assert happened[-1] == 1.0


def test_the_document_is_that_of_the_shipped_results(report: dict[str, Any]) -> None:
    """Renew it with `python tests/published/accuracy_document.py`."""
    fresh, stored = document(report), DOCUMENT.read_text(encoding="utf-8")
    assert NUMBER.sub("#", fresh) == NUMBER.sub("#", stored)
    figures = [list(map(float, NUMBER.findall(text))) for text in (fresh, stored)]
    assert figures[0] == pytest.approx(figures[1], rel=0.01, abs=0.11)
