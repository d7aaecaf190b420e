"""Knowledge: the catalogue and the calibration that answers are made from, kept while unchanged."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy.orm import Session

from advisor.catalog import Catalog, load_catalog
from advisor.result import Result
from app.benchmarks import all_results, content_version, results_version
from app.laws import evidence_of

if TYPE_CHECKING:
    from advisor.evidence import Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """What the advisor knows.

    results_version: hash of the results that it was calibrated on; result_ids: their ids in order.
    """

    catalog: Catalog
    evidence: "Evidence"
    results_version: str
    result_ids: tuple[str, ...]


def knowledge_of(results: Sequence[Result]) -> Knowledge:
    """Knowledge calibrated on these results."""
    return Knowledge(
        catalog=load_catalog(),
        evidence=evidence_of(results),
        results_version=content_version(results),
        result_ids=tuple(result.id for result in results),
    )


class KnowledgeCache:
    """The knowledge from one database; made anew when its results have changed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._version: str | None = None
        self._knowledge: Knowledge | None = None

    def current(self, session: Session) -> Knowledge:
        """Knowledge from the results as they are now in the database."""
        version = results_version(session)
        with self._lock:
            if self._knowledge is None or self._version != version:
                self._knowledge = knowledge_of(all_results(session))
                self._version = version
            return self._knowledge
