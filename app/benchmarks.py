"""Benchmark results: loading the shipped ones, adding the user's own, finding them again."""

import hashlib
import json
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from typing import Any

from sqlalchemy import ColumnElement, Select, delete, func, insert, select
from sqlalchemy.orm import Session

from advisor import __version__
from advisor.result import RESULT_COLUMNS, Result, load_shipped_results
from app.errors import Conflict
from app.laws import flags_text, refuse_contradiction, scope_of
from app.tables import StoredResult, Version

SHIPPED, USER = "shipped", "user"
SHIPPED_VERSION, RESULTS_VERSION = "shipped_results", "results"
MAX_NAMED = 5
_CHUNK = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """What an upload did: rows that are new, and rows that were there already, the very same."""

    num_added: int
    num_unchanged: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultFilter:
    """Which results to list. None leaves a filter out; text matches anywhere, whatever its case."""

    gpu: str | None = None
    framework: str | None = None
    model: str | None = None
    precision: str | None = None
    source: str | None = None
    has_memory: bool | None = None
    in_scope: bool | None = None
    limit: int = 100
    offset: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultPage:
    """Some of the results that match, ready for JSON, and how many match in all."""

    total: int
    rows: tuple[dict[str, Any], ...]


def load_shipped(session: Session) -> None:
    """Store the package's own results unless this version of them is stored. Idempotent.

    A user's row keeps its id: a shipped row of that id is left out. What is in scope is judged
    anew for all rows, since the laws came with the same version of the package.
    """
    stored = session.get(Version, SHIPPED_VERSION)
    if stored is not None and stored.value == shipped_version():
        return
    session.execute(delete(StoredResult).where(StoredResult.origin == SHIPPED))
    for row in session.scalars(select(StoredResult)):
        row.in_scope, row.why_not = scope_of(_result(row))
        row.flags = flags_text(_result(row))
    taken = set(session.scalars(select(StoredResult.id)))
    shipped = [result for result in load_shipped_results() if result.id not in taken]
    _insert(session, shipped, first_position=0, origin=SHIPPED, uploaded_by=None)
    session.merge(Version(name=SHIPPED_VERSION, value=shipped_version()))
    _renew_version(session)


def add_results(session: Session, results: Sequence[Result], *, uploaded_by: str | None) -> Added:
    """Store the user's own results, all or none.

    Raises Conflict when an id is stored with other values, or stands twice in the upload, and
    InvalidField at a row whose values contradict each other.
    """
    for index, result in enumerate(results):
        refuse_contradiction(result, field=f"rows.{index}")
    ids = [result.id for result in results]
    if len(set(ids)) != len(ids):
        twice = sorted({each for each in ids if ids.count(each) > 1})[:MAX_NAMED]
        raise Conflict(f"these ids stand twice in the upload: {', '.join(twice)}")
    known = _stored_by_id(session, ids)
    changed = [each.id for each in results if each.id in known and known[each.id] != each]
    if changed:
        raise Conflict(
            f"already stored with other values: {', '.join(changed[:MAX_NAMED])}; "
            "give changed measurements an id of their own"
        )
    new = [result for result in results if result.id not in known]
    if new:
        last = session.scalar(select(func.max(StoredResult.position)))
        _insert(session, new, first_position=(last or 0) + 1, origin=USER, uploaded_by=uploaded_by)
        _renew_version(session)
    return Added(num_added=len(new), num_unchanged=len(results) - len(new))


def find_results(session: Session, wanted: ResultFilter) -> ResultPage:
    """The page of results that match, in the order in which they were stored."""
    conditions = _conditions(wanted)
    total = session.scalar(select(func.count()).select_from(StoredResult).where(*conditions))
    query = _ordered().where(*conditions).limit(wanted.limit).offset(wanted.offset)
    return ResultPage(total=total or 0, rows=tuple(map(_shown, session.scalars(query))))


def choices(session: Session) -> dict[str, list[str]]:
    """The values that occur, by filter, for a form."""
    columns = {
        "gpu": StoredResult.gpu,
        "framework": StoredResult.framework,
        "precision": StoredResult.compute_dtype,
        "source": StoredResult.source,
    }
    return {
        name: sorted(value for value in session.scalars(select(column).distinct()) if value)
        for name, column in columns.items()
    }


def all_results(session: Session) -> tuple[Result, ...]:
    """Every stored result, in the order in which they were stored."""
    return tuple(map(_result, session.scalars(_ordered())))


def results_named(session: Session, ids: Sequence[str]) -> tuple[Result, ...]:
    """The stored results with these ids, in the order in which they were stored."""
    wanted = set(ids)
    return tuple(result for result in all_results(session) if result.id in wanted)


def results_version(session: Session) -> str:
    """Changes whenever the stored results change."""
    version = session.get(Version, RESULTS_VERSION)
    return "" if version is None else version.value


def content_version(results: Iterable[Result]) -> str:
    """Short hash of the results themselves."""
    digest = hashlib.sha256()
    for result in results:
        digest.update(json.dumps(_columns(result)).encode() + b"\n")
    return digest.hexdigest()[:12]


@cache
def shipped_version() -> str:
    """Hash of the shipped file and of the package's version, whose laws judge the scope."""
    data = resources.files("advisor").joinpath("data/benchmarks.csv").read_bytes()
    return hashlib.sha256(__version__.encode() + b"\n" + data).hexdigest()[:12]


def _insert(
    session: Session,
    results: Sequence[Result],
    *,
    first_position: int,
    origin: str,
    uploaded_by: str | None,
) -> None:
    now = datetime.now(UTC)
    rows = []
    for position, result in enumerate(results, start=first_position):
        in_scope, why_not = scope_of(result)
        provenance = {
            "position": position,
            "source": result.source,
            "origin": origin,
            "uploaded_by": uploaded_by,
            "in_scope": in_scope,
            "why_not": why_not,
            "flags": flags_text(result) if in_scope else None,
            "created_at": now,
        }
        rows.append({**_columns(result), **provenance})
    session.connection().execute(insert(StoredResult), rows)


def _renew_version(session: Session) -> None:
    session.merge(Version(name=RESULTS_VERSION, value=secrets.token_hex(8)))


def _stored_by_id(session: Session, ids: Sequence[str]) -> dict[str, Result]:
    found: dict[str, Result] = {}
    for start in range(0, len(ids), _CHUNK):
        query = select(StoredResult).where(StoredResult.id.in_(ids[start : start + _CHUNK]))
        found.update((row.id, _result(row)) for row in session.scalars(query))
    return found


def _ordered() -> Select[Any]:
    return select(StoredResult).order_by(StoredResult.position, StoredResult.id)


def _conditions(wanted: ResultFilter) -> list[ColumnElement[bool]]:
    texts = {
        StoredResult.gpu: wanted.gpu,
        StoredResult.framework: wanted.framework,
        StoredResult.model_name: wanted.model,
        StoredResult.compute_dtype: wanted.precision,
        StoredResult.source: wanted.source,
    }
    conditions: list[ColumnElement[bool]] = [
        func.lower(column).contains(value.lower(), autoescape=True)
        for column, value in texts.items()
        if value
    ]
    if wanted.has_memory is not None:
        measured = StoredResult.peak_mem_gib.is_not(None)
        conditions.append(measured if wanted.has_memory else ~measured)
    if wanted.in_scope is not None:
        conditions.append(StoredResult.in_scope == wanted.in_scope)
    return conditions


def _result(row: StoredResult) -> Result:
    return Result(**_columns(row))


def _columns(source: Result | StoredResult) -> dict[str, Any]:
    """The columns of a result by name, in the file's order."""
    return {name: getattr(source, name) for name in RESULT_COLUMNS}


def _shown(row: StoredResult) -> dict[str, Any]:
    return {
        **_columns(row),
        "source": row.source,
        "origin": row.origin,
        "uploaded_by": row.uploaded_by,
        "in_scope": row.in_scope,
        "why_not": row.why_not,
        "flags": row.flags,
        "created_at": row.created_at.isoformat(timespec="seconds"),
    }
