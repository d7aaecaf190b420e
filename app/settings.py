"""Settings: what the surroundings decide, read once from SHARDWISE_* environment variables."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

PREFIX = "SHARDWISE_"
LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
MIN_SECRET_CHARS = 32
# Anything else that is sent to with a secret in it could be another's server.
SLACK_WEBHOOK = re.compile(
    r"https://hooks\.slack(-gov)?\.com/services/[A-Za-z0-9]+/[A-Za-z0-9]+/[A-Za-z0-9]+"
)
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
    public_url: where people reach the service, for links in messages; "" leaves links out.
    worker: "embedded" advances jobs in the serving process, "separate" leaves it to others.
    jobs_dir: folder of the jobs that run on this machine.
    max_backlog: unfinished jobs, beyond which new ones are refused.
    local_processes: of one job on this machine; 0: one for each GPU, or two without.
    aws_enabled: jobs may be sent to SageMaker. aws_region: where a request names none.
    aws_endpoint_url: instead of AWS, on this machine only: a test's or the demo's.
    job_role_arn, job_s3_uri: of SageMaker jobs that name no role, output or checkpoints.
    allow_on_demand: a job that lost its training plan goes on at the on-demand price.
    allow_plan_purchase: POST /plans may buy.
    secret_key: signs cookies; needed as soon as keys are.
    slack_webhook_url: an incoming webhook; "" sends nothing. slack_test_url: a sink on this machine
        instead of it, for tests.
    """

    database_url: str = "sqlite:///var/shardwise.db"
    host: str = "127.0.0.1"
    port: int = 8000
    log_level: str = "INFO"
    max_body_bytes: int = _MIB
    max_searches: int = 2
    search_wait_s: int = 10
    public_url: str = ""
    worker: str = "embedded"
    jobs_dir: str = "var/jobs"
    max_backlog: int = 1000
    local_processes: int = 0
    aws_enabled: bool = False
    aws_region: str = ""
    aws_endpoint_url: str = ""
    job_role_arn: str = ""
    job_s3_uri: str = ""
    allow_on_demand: bool = False
    allow_plan_purchase: bool = False
    secret_key: str = field(default="", repr=False)
    slack_webhook_url: str = field(default="", repr=False)
    slack_test_url: str = ""

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


def _flag(variable: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise SettingsError(f"{variable} must be true or false, not {text[:40]!r}")
    return text.lower() == "true"


def _one_of(*choices: str) -> Callable[[str, str], str]:
    def read(variable: str, text: str) -> str:
        if text not in choices:
            raise SettingsError(f"{variable} must be {' or '.join(choices)}, not {text[:40]!r}")
        return text

    return read


def _web_address(variable: str, text: str) -> str:
    if not re.fullmatch(r"https?://[^\s/@?#]+(/[^\s?#]*)?", text):
        raise SettingsError(f"{variable} must be an address such as https://example.org")
    return text.rstrip("/")


def _loopback_address(variable: str, text: str) -> str:
    if not re.fullmatch(r"http://(127\.0\.0\.1|localhost|\[::1\]):\d{1,5}(/[^\s?#]*)?", text):
        raise SettingsError(
            f"{variable} must be http://127.0.0.1:PORT: it is for this machine only"
        )
    return text.rstrip("/")


def _secret_key(variable: str, text: str) -> str:
    if len(text) < MIN_SECRET_CHARS:
        raise SettingsError(
            f"{variable} must have at least {MIN_SECRET_CHARS} characters; make one with: "
            "python -c 'import secrets; print(secrets.token_hex(32))'"
        )
    return text


def _slack_webhook(variable: str, text: str) -> str:
    if not SLACK_WEBHOOK.fullmatch(text):
        raise SettingsError(
            f"{variable} must be an incoming webhook: https://hooks.slack.com/services/T…/B…/…"
        )
    return text


def _matching(pattern: str, example: str) -> Callable[[str, str], str]:
    def read(variable: str, text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise SettingsError(f"{variable} must be such as {example}, not {text[:100]!r}")
        return text.rstrip("/")

    return read


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
    "public_url": _web_address,
    "worker": _one_of("embedded", "separate"),
    "jobs_dir": _text,
    "max_backlog": _whole(1, 10**6),
    "local_processes": _whole(0, 64),
    "aws_enabled": _flag,
    "aws_region": _text,
    "aws_endpoint_url": _loopback_address,
    "job_role_arn": _matching(
        r"arn:aws[a-z-]*:iam::\d{12}:role/\S+", "arn:aws:iam::ACCOUNT:role/NAME"
    ),
    "job_s3_uri": _matching(r"s3://[a-z0-9.-]{3,63}(/\S+)?", "s3://BUCKET/PREFIX"),
    "allow_on_demand": _flag,
    "allow_plan_purchase": _flag,
    "secret_key": _secret_key,
    "slack_webhook_url": _slack_webhook,
    "slack_test_url": _loopback_address,
}
