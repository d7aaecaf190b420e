"""Settings: defaults, and refusals that name the variable."""

from pathlib import Path

import pytest

from app.database import database_url, sqlite_folder
from app.settings import Settings, SettingsError, resources


def test_defaults_listen_on_loopback_only() -> None:
    assert Settings.from_environment({}).host == "127.0.0.1"


def test_values_are_read() -> None:
    settings = Settings.from_environment(
        {"SHARDWISE_PORT": "9000", "SHARDWISE_LOG_LEVEL": "warning", "HOME": "/root"}
    )
    assert (settings.port, settings.log_level) == (9000, "WARNING")


def test_blank_means_default() -> None:
    assert Settings.from_environment({"SHARDWISE_PORT": "  "}).port == 8000


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("SHARDWISE_PORT", "80a"),
        ("SHARDWISE_PORT", "65536"),
        ("SHARDWISE_PORT", "-1"),
        ("SHARDWISE_PORT", "٣"),
        ("SHARDWISE_LOG_LEVEL", "loud"),
        ("SHARDWISE_MAX_BODY_BYTES", "1"),
        ("SHARDWISE_PRT", "1"),
    ],
)
def test_unusable_values_are_named(variable: str, text: str) -> None:
    with pytest.raises(SettingsError, match=variable):
        Settings.from_environment({variable: text})


def test_postgresql_gets_the_driver_that_is_installed() -> None:
    assert database_url("postgresql://u:p@h/d").drivername == "postgresql+psycopg"
    assert database_url("postgres://h/d").drivername == "postgresql+psycopg"


@pytest.mark.parametrize("url", ["", "nonsense", "mysql://h/d", "sqlite+aiosqlite:///x"])
def test_other_databases_are_refused(url: str) -> None:
    with pytest.raises(SettingsError, match="SHARDWISE_DATABASE_URL"):
        database_url(url)


def test_a_sqlite_file_has_a_folder() -> None:
    assert sqlite_folder(database_url("sqlite:////a/b/c.db")) == Path("/a/b")
    assert sqlite_folder(database_url("sqlite://")) is None


def test_templates_and_migrations_are_found() -> None:
    assert (resources("templates") / "index.html").is_file()
    assert (resources("migrations") / "env.py").is_file()
