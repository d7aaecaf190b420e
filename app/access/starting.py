"""Before serving: whether the settings, and the keys in the database, make a safe service."""

import logging

from sqlalchemy.exc import SQLAlchemyError

from app.access.keys import has_keys
from app.access.safety import check_start, keys_are_needed
from app.benchmarks import load_shipped
from app.database import Database
from app.errors import AppError
from app.settings import Settings

_logger = logging.getLogger(__name__)


def check_with_database(settings: Settings) -> None:
    """Raise SettingsError where the service must not start: by its settings, or without a key.

    A database that is away now may hold keys: the service starts, and answers nobody without one.
    """
    check_start(settings, None)
    if not keys_are_needed(settings):
        return
    database = Database(settings.database_url, load_shipped)
    try:
        with database.reading() as session:
            found = has_keys(session)
    except (AppError, SQLAlchemyError):
        _logger.warning("the database is away: whether there are keys is not known")
        return
    finally:
        database.dispose()
    check_start(settings, found)
