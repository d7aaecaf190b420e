"""Migrations: up, equal to the tables, down, up again, on SQLite and on PostgreSQL."""

import threading
from typing import Any

import pytest
from alembic import command
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, event, func, inspect, select
from sqlalchemy.orm import Session

from advisor.result import load_shipped_results
from app.benchmarks import all_results, load_shipped, results_version
from app.database import Database, alembic_config, database_url, head_revision, upgrade
from app.errors import ServiceUnavailable
from app.laws import scope_of
from app.tables import StoredResult, Table, Version


def test_up_check_down_up(any_url: str) -> None:
    database = Database(any_url, lambda _session: None)
    database.ensure_prepared()
    with database.engine.begin() as connection:
        command.check(alembic_config(connection))
        command.downgrade(alembic_config(connection), "base")
        assert set(inspect(connection).get_table_names()) == {"alembic_version"}
        upgrade(connection)
        assert set(inspect(connection).get_table_names()) >= set(Table.metadata.tables)
    database.dispose()


def test_the_newest_file_is_the_head(sqlite_url: str) -> None:
    database = Database(sqlite_url, lambda _session: None)
    database.ensure_prepared()
    with database.engine.connect() as connection:
        scripts = ScriptDirectory.from_config(alembic_config(connection))
        assert scripts.get_current_head() == head_revision()
    database.dispose()


def test_shipped_results_are_loaded_once_and_unchanged(any_url: str) -> None:
    database = Database(any_url, load_shipped)
    with database.reading() as session:
        assert all_results(session) == load_shipped_results()
        version = results_version(session)
    database.forget_preparation()
    with database.reading() as session:
        assert results_version(session) == version
    database.dispose()


def test_every_row_out_of_scope_says_why(any_url: str) -> None:
    database = Database(any_url, load_shipped)
    with database.reading() as session:
        rows = session.scalars(select(StoredResult)).all()
        assert any(row.in_scope for row in rows)
        assert all(row.why_not for row in rows if not row.in_scope)
        assert all(row.created_at.tzinfo is not None for row in rows)
    database.dispose()


def test_a_new_version_of_the_package_replaces_only_its_own_rows(any_url: str) -> None:
    database = Database(any_url, load_shipped)
    own = load_shipped_results()[0].id
    with database.writing() as session:
        row = session.get_one(StoredResult, own)
        row.origin, row.notes, row.why_not = "user", "mine", "as it was judged before"
        session.merge(Version(name="shipped_results", value="older"))
    database.forget_preparation()
    with database.reading() as session:
        count = session.scalar(select(func.count()).select_from(StoredResult))
        assert count == len(load_shipped_results())
        row = session.get_one(StoredResult, own)
        assert (row.origin, row.notes) == ("user", "mine")
        assert row.why_not == scope_of(load_shipped_results()[0])[1]
    database.dispose()


def test_two_processes_migrate_one_database_at_once(any_url: str) -> None:
    databases = [Database(any_url, load_shipped) for _ in range(3)]
    failures: list[BaseException] = []

    def prepare(database: Database) -> None:
        try:
            database.ensure_prepared()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=prepare, args=(each,)) for each in databases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    with databases[0].reading() as session:
        assert len(all_results(session)) == len(load_shipped_results())
    for each in databases:
        each.dispose()


def test_a_failed_load_leaves_nothing_behind(any_url: str) -> None:
    def fail(session: Session) -> None:
        load_shipped(session)
        raise OSError("the disk is full")

    database = Database(any_url, fail)
    seen: list[str] = []
    event.listen(database.engine, "rollback", lambda _connection: seen.append("rollback"))
    with pytest.raises(ServiceUnavailable):
        database.ensure_prepared()
    assert seen
    assert not database.is_prepared
    database.dispose()
    engine: Any = create_engine(database_url(any_url))
    assert inspect(engine).get_table_names() == []
    engine.dispose()
