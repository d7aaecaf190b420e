"""The results that commands work with: the database's where there is one, else the shipped ones."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from advisor.result import Result, load_shipped_results
from app.settings import PREFIX, Settings

if TYPE_CHECKING:
    from app.knowledge import Knowledge


# ruff: noqa: PLC0415 - SQLAlchemy is slow to import: commands without a database do without it


def local_results(environment: Mapping[str, str]) -> tuple[Result, ...]:
    """Stored results, without making a database that is not there.

    Raises SettingsError for settings that cannot be used, ServiceUnavailable for a database that
    is named and cannot be reached.
    """
    settings = Settings.from_environment(environment)
    if not environment.get(PREFIX + "DATABASE_URL") and not _is_made(settings.database_url):
        return load_shipped_results()
    from app.benchmarks import all_results, load_shipped
    from app.database import Database

    database = Database(settings.database_url, load_shipped)
    try:
        with database.reading() as session:
            return all_results(session)
    finally:
        database.dispose()


def local_knowledge(environment: Mapping[str, str], version: str | None = None) -> "Knowledge":
    """What the stored results teach; with a version, that stored calibration instead.

    Raises as local_results does, and NotFound or Conflict for a version that cannot be had.
    """
    from app.knowledge import knowledge_of

    if version is None:
        return knowledge_of(local_results(environment))
    settings = Settings.from_environment(environment)
    if not environment.get(PREFIX + "DATABASE_URL") and not _is_made(settings.database_url):
        return _shipped_knowledge(version)
    from app.benchmarks import load_shipped
    from app.calibrations import knowledge_at
    from app.database import Database

    database = Database(settings.database_url, load_shipped)
    try:
        with database.reading() as session:
            return knowledge_at(session, version)
    finally:
        database.dispose()


def _shipped_knowledge(version: str) -> "Knowledge":
    from app.errors import NotFound
    from app.knowledge import knowledge_of

    knowledge = knowledge_of(load_shipped_results())
    if knowledge.evidence.version != version:
        raise NotFound(
            f"there is no database here, and the shipped results make calibration "
            f"{knowledge.evidence.version}, not {version}"
        )
    return knowledge


def _is_made(url: str) -> bool:
    from app.database import database_url

    return _exists(database_url(url).database)


def _exists(path: str | None) -> bool:
    from pathlib import Path

    return path is not None and Path(path).is_file()
