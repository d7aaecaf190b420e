"""Settings: what the surroundings decide, read once from SHARDWISE_* environment variables."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

PREFIX = "SHARDWISE_"
LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
_MIB = 1024**2


class SettingsError(Exception):
    """An environment variable has a value that cannot be used; the message names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Every setting of the service. docs/settings.md describes each.

    database_url: SQLAlchemy URL of SQLite or PostgreSQL.
    max_body_bytes: requests with a longer body are refused with 413.
    max_searches: searches that run at once; more wait.
    search_wait_s: seconds that a search waits for its turn before 503.
    """

    database_url: str = "sqlite:///var/shardwise.db"
    host: str = "127.0.0.1"
    port: int = 8000
    log_level: str = "INFO"
    max_body_bytes: int = _MIB
    max_searches: int = 2
    search_wait_s: int = 10

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "Settings":
        """Settings from variables; unset or blank ones keep the default. Raises SettingsError."""
        known = {PREFIX + field.name.upper(): field.name for field in fields(cls)}
        unknown = sorted(
            name for name in environment if name.startswith(PREFIX) and name not in known
        )
        if unknown:
            raise SettingsError(f"unknown variable {unknown[0]}; known: {', '.join(known)}")
        values: dict[str, Any] = {}
        for variable, name in known.items():
            text = environment.get(variable, "").strip()
            if text:
                values[name] = _READERS[name](variable, text)
        return cls(**values)


def resources(name: str) -> Path:
    """The folder `templates` or `migrations`: inside the installed package, else beside it."""
    package = Path(__file__).resolve().parent
    inside = package / name
    return inside if inside.is_dir() else package.parent / name


def _text(_variable: str, text: str) -> str:
    return text


def _level(variable: str, text: str) -> str:
    if text.upper() not in LOG_LEVELS:
        raise SettingsError(f"{variable} must be one of {', '.join(LOG_LEVELS)}, not {text!r}")
    return text.upper()


def _whole(low: int, high: int) -> Callable[[str, str], int]:
    def read(variable: str, text: str) -> int:
        if not text.isascii() or not text.isdigit() or not low <= int(text[:20]) <= high:
            raise SettingsError(
                f"{variable} must be a whole number from {low} to {high}, not {text[:40]!r}"
            )
        return int(text)

    return read


_READERS: Mapping[str, Callable[[str, str], object]] = {
    "database_url": _text,
    "host": _text,
    "port": _whole(0, 65_535),
    "log_level": _level,
    "max_body_bytes": _whole(1024, 1024 * _MIB),
    "max_searches": _whole(1, 64),
    "search_wait_s": _whole(0, 600),
}
