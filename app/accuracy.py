"""Accuracy of the stored results' predictions: computed once for each state of the results."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from app.benchmarks import all_results, results_version
from app.calibrations import keep, keep_accuracy, versions
from app.errors import ServiceUnavailable
from app.laws import accuracy_report, factor_lines

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from advisor.evidence import Evidence
    from app.service import Service

# A report takes a few seconds: who asks first waits this long, and is then asked to come again.
WAIT_S = 20.0
FILTERS = ("gpu", "precision", "stack", "source")


class AccuracyCache:
    """The report on the results as they are stored; made anew, once, when they have changed."""

    def __init__(self, *, wait_s: float = WAIT_S) -> None:
        self._wait_s = wait_s
        self._lock = threading.Lock()
        self._version: str | None = None
        self._report: dict[str, Any] | None = None
        self._factors: tuple[str, list[dict[str, Any]]] = ("", [])

    def current(self, session: "Session") -> dict[str, Any]:
        """The report. Raises ServiceUnavailable while another request computes it for long."""
        version = results_version(session)
        if self._version == version and self._report is not None:
            return self._report
        with self.computing():
            if self._version != version or self._report is None:
                self._report = accuracy_report(all_results(session))
                self._version = version
            return self._report

    def factors(self, evidence: "Evidence") -> list[dict[str, Any]]:
        """The factors of a calibration with their rows, as plain values; kept for the last one."""
        version, rows = self._factors
        if version != evidence.version:
            lines = [asdict(line) for line in factor_lines(evidence)]
            rows = [{**line, "result_ids": list(line["result_ids"])} for line in lines]
            self._factors = (evidence.version, rows)
        return rows

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Be the only one that computes. Raises ServiceUnavailable when another does for long."""
        if not self._lock.acquire(timeout=self._wait_s):
            raise ServiceUnavailable("the accuracy report is being computed; try again soon")
        try:
            yield
        finally:
            self._lock.release()


def accuracy_json(
    report: dict[str, Any], session: "Session", service: "Service", wanted: dict[str, str]
) -> dict[str, Any]:
    """The report with the calibration in force; rows only of the GPU, stack … that are wanted."""
    knowledge = service.knowledge()
    return {
        "calibration_version": knowledge.evidence.version,
        "results_version": knowledge.results_version,
        "factors": service.accuracy.factors(knowledge.evidence),
        "calibrations": versions(session, limit=20),
        **report,
        "rows": filtered(report["rows"], wanted),
    }


def filtered(rows: list[dict[str, Any]], wanted: dict[str, str]) -> list[dict[str, Any]]:
    """Rows with exactly these values; an empty value leaves a filter out."""
    return [
        row
        for row in rows
        if all(not value or row[name] == value for name, value in wanted.items())
    ]


def renew_calibration(service: "Service") -> dict[str, Any]:
    """Calibrate on all stored results, keep the version with its accuracy, and report both."""
    knowledge = service.knowledge()
    with service.database.reading() as session:
        report = service.accuracy.current(session)
    with service.database.writing() as session:
        keep(session, knowledge)
        keep_accuracy(session, knowledge.evidence.version, report["summary"])
    return {
        "version": knowledge.evidence.version,
        "results_version": knowledge.results_version,
        "num_results": len(knowledge.result_ids),
        "factors": service.accuracy.factors(knowledge.evidence),
        "accuracy": report["summary"],
    }
