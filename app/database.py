"""Database: engine, sessions, and the preparation (migrations, shipped results) of a database."""

import logging
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from sqlalchemy import CursorResult, Engine, create_engine, event, func, select, text
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.engine import URL, Connection, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.orm import DeclarativeBase, Session, sessionmaker

from app.errors import DATABASE_DOWN, ServiceUnavailable
from app.settings import SettingsError, resources

BUSY_TIMEOUT_MS = 10_000
CONNECT_TIMEOUT_S = 5
POOL_TIMEOUT_S = 10
# Any constant: all that migrate the same PostgreSQL database wait for one lock.
MIGRATION_LOCK = 7_204_551_303
_logger = logging.getLogger(__name__)


class Database:
    """One database: sessions to read and write, prepared before its first use.

    prepare: what fills a freshly migrated database; called in the migration's own transaction.
    """

    def __init__(self, url: str, prepare: Callable[[Session], None]) -> None:
        self.url = database_url(url)
        self.engine = _engine(self.url)
        self._prepare = prepare
        self._reading = sessionmaker(self.engine, expire_on_commit=False)
        immediate = self.engine.execution_options(shardwise_immediate=True)
        self._writing = sessionmaker(immediate, expire_on_commit=False)
        self._lock = threading.Lock()
        self._is_prepared = False
        self._file: tuple[int, int] | None = None

    @property
    def is_prepared(self) -> bool:
        """Whether this process has seen the database migrated and loaded."""
        return self._is_prepared

    def forget_preparation(self) -> None:
        """Look again before the next use: the database failed, and may come back empty."""
        self._is_prepared = False

    def ensure_prepared(self) -> None:
        """Migrate and fill the database unless that is done. Raises ServiceUnavailable."""
        if self._is_prepared and self._file == _file_of(self.url):
            return
        with self._lock:
            if self._is_prepared and self._file == _file_of(self.url):
                return
            # A file that was deleted or replaced: what is open would write to nowhere.
            self.engine.dispose()
            try:
                self._migrate()
            except (SQLAlchemyError, OSError) as error:
                _logger.error("database is not ready", extra={"reason": str(error)[:500]})
                raise ServiceUnavailable(DATABASE_DOWN) from error
            self._file = _file_of(self.url)
            self._is_prepared = True

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """A session that only reads."""
        self.ensure_prepared()
        with self._reading() as session:
            yield session

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """A session in one transaction: committed at the end, rolled back on any error."""
        self.ensure_prepared()
        with self._writing.begin() as session:
            yield session

    def ping(self) -> None:
        """Raise ServiceUnavailable or a database error unless a statement runs."""
        with self.reading() as session:
            session.execute(text("SELECT value FROM versions LIMIT 1"))

    def dispose(self) -> None:
        """Close every connection."""
        self.engine.dispose()

    def _migrate(self) -> None:
        folder = sqlite_folder(self.url)
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        immediate = self.engine.execution_options(shardwise_immediate=True)
        with immediate.begin() as connection:
            if self.engine.dialect.name == "postgresql":
                connection.execute(
                    text("SELECT pg_advisory_xact_lock(:key)"), {"key": MIGRATION_LOCK}
                )
            upgrade(connection)
            # The session's commit leaves the transaction open: all of it holds, or nothing.
            with Session(connection, join_transaction_mode="rollback_only") as session:
                self._prepare(session)
                session.commit()


def insert_unless_there(
    session: Session, table: type[DeclarativeBase], row: dict[str, Any]
) -> bool:
    """Insert one row unless it breaks a unique key; whether it was inserted."""
    is_sqlite = session.get_bind().dialect.name == "sqlite"
    insert = sqlite_insert if is_sqlite else postgresql_insert
    done = session.execute(insert(table).values(row).on_conflict_do_nothing())
    return bool(cast("CursorResult[Any]", done).rowcount)


def database_now(session: Session) -> datetime:
    """The database's clock, which all processes that share it agree on."""
    if session.get_bind().dialect.name == "sqlite":
        # Whoever shares the file shares the machine.
        return datetime.now(UTC)
    return cast("datetime", session.scalar(select(func.clock_timestamp()))).astimezone(UTC)


def database_url(text_url: str) -> URL:
    """The URL with the driver that is installed. Raises SettingsError for what is no such URL."""
    try:
        url = make_url(text_url)
    except (ArgumentError, ValueError) as error:
        raise SettingsError("SHARDWISE_DATABASE_URL is not a database URL") from error
    if url.drivername in ("postgres", "postgresql"):
        return url.set(drivername="postgresql+psycopg")
    if url.drivername not in ("sqlite", "postgresql+psycopg"):
        raise SettingsError(
            f"SHARDWISE_DATABASE_URL must begin with sqlite:/// or postgresql://, "
            f"not {url.drivername[:40]!r}"
        )
    return url


def sqlite_folder(url: URL) -> Path | None:
    """The folder of a SQLite file; None for any other database and one in memory."""
    if url.get_backend_name() != "sqlite" or not url.database or url.database == ":memory:":
        return None
    return Path(url.database).resolve().parent


def _file_of(url: URL) -> tuple[int, int] | None:
    """Which file a SQLite database is now (device and inode); None for other databases."""
    if sqlite_folder(url) is None or url.database is None:
        return None
    try:
        found = Path(url.database).stat()
    except OSError:
        return (0, 0)
    return (found.st_dev, found.st_ino)


def upgrade(connection: Connection, revision: str = "head") -> None:
    """Run the migrations up to `revision` on this connection, in its transaction."""
    if revision == "head" and _current_revision(connection) == head_revision():
        return
    from alembic import command  # noqa: PLC0415 - slow: only a database that needs it pays

    command.upgrade(alembic_config(connection), revision)


def alembic_config(connection: Connection) -> Any:
    """Alembic's configuration, bound to a connection."""
    from alembic.config import Config  # noqa: PLC0415 - slow, as above

    # Its default is the stream of the time when Alembic was imported.
    config = Config(stdout=sys.stdout)
    config.set_main_option("script_location", str(resources("migrations")))
    config.attributes["connection"] = connection
    return config


def head_revision() -> str:
    """The newest migration: revisions are named by date, and so are their files."""
    return max(path.stem for path in (resources("migrations") / "versions").glob("*.py"))


def _current_revision(connection: Connection) -> str | None:
    if not connection.dialect.has_table(connection, "alembic_version"):
        return None
    value = connection.scalar(text("SELECT version_num FROM alembic_version"))
    return None if value is None else str(value)


def _engine(url: URL) -> Engine:
    if url.get_backend_name() == "sqlite":
        engine = create_engine(url, connect_args={"timeout": BUSY_TIMEOUT_MS / 1000})
        event.listen(engine, "connect", _on_sqlite_connect)
        event.listen(engine, "begin", _on_sqlite_begin)
        return engine
    try:
        return create_engine(
            url,
            pool_pre_ping=True,
            pool_timeout=POOL_TIMEOUT_S,
            connect_args={"connect_timeout": CONNECT_TIMEOUT_S},
        )
    except ModuleNotFoundError as error:
        raise SettingsError(
            "PostgreSQL needs a driver: pip install '.[postgres]' in the folder of the project"
        ) from error


def _on_sqlite_connect(connection: Any, _record: object) -> None:
    # The driver's own transactions would commit before each CREATE TABLE; ours are explicit.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
    _write_ahead(cursor)
    cursor.execute("PRAGMA synchronous = NORMAL")
    cursor.close()


def _write_ahead(cursor: sqlite3.Cursor) -> None:
    """Set the journal mode, for which SQLite itself does not wait while others set it."""
    give_up_s = time.monotonic() + BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            cursor.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > give_up_s:
                raise
            time.sleep(0.02)


def _on_sqlite_begin(connection: Connection) -> None:
    # A writer takes the lock at once: a reader that becomes a writer may be refused, not queued.
    immediate = connection.get_execution_options().get("shardwise_immediate", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")
