"""The results that commands work with: the database's where there is one, else the shipped ones."""

from collections.abc import Mapping

from advisor.result import Result, load_shipped_results
from app.settings import PREFIX, Settings


def local_results(environment: Mapping[str, str]) -> tuple[Result, ...]:
    """Stored results, without making a database that is not there.

    Raises SettingsError for settings that cannot be used, ServiceUnavailable for a database that
    is named and cannot be reached.
    """
    settings = Settings.from_environment(environment)
    if not environment.get(PREFIX + "DATABASE_URL") and not _is_made(settings.database_url):
        return load_shipped_results()
    # SQLAlchemy is slow to import: commands without a database do without it.
    from app.benchmarks import all_results, load_shipped  # noqa: PLC0415
    from app.database import Database  # noqa: PLC0415

    database = Database(settings.database_url, load_shipped)
    try:
        with database.reading() as session:
            return all_results(session)
    finally:
        database.dispose()


def _is_made(url: str) -> bool:
    from app.database import database_url  # noqa: PLC0415

    return _exists(database_url(url).database)


def _exists(path: str | None) -> bool:
    from pathlib import Path  # noqa: PLC0415

    return path is not None and Path(path).is_file()
