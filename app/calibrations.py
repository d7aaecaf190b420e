"""Calibrations: each version kept in the database, with which an old answer can be given again."""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from advisor import __version__
from advisor.catalog import load_catalog
from advisor.errors import InvalidField
from app.benchmarks import content_version, results_named
from app.errors import Conflict, NotFound
from app.knowledge import Knowledge
from app.laws import calibration_values, evidence_from_values
from app.tables import StoredCalibration

_VERSION = re.compile(r"[0-9a-f]{12}")


def keep(session: Session, knowledge: Knowledge) -> None:
    """Store the calibration in force, unless it is stored already."""
    version = knowledge.evidence.version
    if session.scalar(select(func.count()).where(StoredCalibration.version == version)):
        return
    session.merge(
        StoredCalibration(
            version=version,
            results_version=knowledge.results_version,
            package_version=__version__,
            values=json.dumps(calibration_values(knowledge.evidence)),
            result_ids=json.dumps(knowledge.result_ids),
            accuracy=None,
            created_at=datetime.now(UTC),
        )
    )


def keep_accuracy(session: Session, version: str, summary: dict[str, Any]) -> None:
    """Add the error figures to a stored calibration; nothing happens when it is not stored."""
    row = session.get(StoredCalibration, version)
    if row is not None:
        row.accuracy = json.dumps(summary)


def knowledge_at(session: Session, version: str) -> Knowledge:
    """The knowledge of a stored version: its very numbers and results, nothing fitted anew.

    Raises NotFound for a version that is not stored, and Conflict when the results behind it are
    no longer stored as they were.
    """
    row = session.get(StoredCalibration, version) if _VERSION.fullmatch(version) else None
    if row is None:
        raise NotFound(
            "no calibration of this version is stored; the answer to be repeated names its own "
            "under calibration_version"
        )
    results = results_named(session, json.loads(row.result_ids))
    try:
        evidence = evidence_from_values(json.loads(row.values), results, version)
    except InvalidField as error:
        raise Conflict(error.detail) from None
    return Knowledge(
        catalog=load_catalog(),
        evidence=evidence,
        results_version=content_version(results),
        result_ids=tuple(result.id for result in results),
    )


def versions(session: Session, *, limit: int = 100) -> list[dict[str, Any]]:
    """The stored versions, newest first, with their error figures where they were computed."""
    query = select(StoredCalibration).order_by(
        StoredCalibration.created_at.desc(), StoredCalibration.version
    )
    return [
        {
            "version": row.version,
            "created_at": row.created_at.isoformat(timespec="seconds"),
            "package_version": row.package_version,
            "results_version": row.results_version,
            "num_results": len(json.loads(row.result_ids)),
            "accuracy": None if row.accuracy is None else json.loads(row.accuracy),
        }
        for row in session.scalars(query.limit(limit))
    ]


def knowledge_of_answer(
    session: Session, content: Mapping[str, Any], current: Knowledge
) -> Knowledge:
    """The knowledge that a stored answer was made with.

    Raises NotFound or Conflict where it is not to be had any more.
    """
    if content["catalog_version"] != current.catalog.version:
        raise Conflict("the answer was made with another catalogue of this service: ask again")
    version = str(content["calibration_version"])
    return current if version == current.evidence.version else knowledge_at(session, version)


def knowledge_if_there(
    session: Session, content: Mapping[str, Any], current: Knowledge
) -> Knowledge | None:
    """knowledge_of_answer(), or None where it is not to be had any more."""
    try:
        return knowledge_of_answer(session, content, current)
    except (NotFound, Conflict):
        return None
