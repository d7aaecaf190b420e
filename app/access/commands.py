"""shardwise keys: created, revoked and listed on the command line, where the database is."""

import argparse
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation

from advisor.errors import InvalidField
from app.access import audit
from app.access.keys import create_key, list_keys, revoke_key
from app.access.roles import COMMAND_LINE, Role
from app.access.tables import ApiKey
from app.database import Database


def keys_create(given: argparse.Namespace, database: Database) -> str:
    """Make a key; its text, which is shown this once. Raises AdvisorError and AppError."""
    with database.writing() as session:
        made = create_key(
            session,
            given.name,
            Role.named(given.role),
            datetime.now(UTC),
            max_usd_per_job=_usd(given.max_usd_per_job, "max-usd-per-job"),
            max_usd_per_month=_usd(given.max_usd_per_month, "max-usd-per-month"),
        )
        audit.record(session, COMMAND_LINE, "key.create", given.name, given.role)
    return made.text


def keys_revoke(given: argparse.Namespace, database: Database) -> str:
    """End a key and its logins; a sentence. Raises AppError."""
    with database.writing() as session:
        revoke_key(session, given.name, datetime.now(UTC))
        audit.record(session, COMMAND_LINE, "key.revoke", given.name)
    return f"{given.name} is revoked, and logged out everywhere"


def keys_list(_given: argparse.Namespace, database: Database) -> str:
    """Every key as a line of a table; never its text."""
    with database.reading() as session:
        rows = [_row(key) for key in list_keys(session)]
    if not rows:
        return "there are no keys yet; make one with: shardwise keys create NAME --role admin"
    table = [("NAME", "ROLE", "USD PER JOB", "USD PER MONTH", "LAST USED", "STATE"), *rows]
    widths = [max(len(row[place]) for row in table) for place in range(len(table[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    )


def _row(key: ApiKey) -> tuple[str, ...]:
    caps = (key.max_usd_per_job, key.max_usd_per_month)
    used = key.last_used_at
    return (
        key.name,
        key.role,
        *("no cap" if cap is None else f"{cap:,.2f}" for cap in caps),
        "never" if used is None else f"{used:%Y-%m-%d %H:%M}",
        "in use" if key.revoked_at is None else "revoked",
    )


def _usd(text: str | None, flag: str) -> Decimal | None:
    if text is None:
        return None
    try:
        return Decimal(text.replace(",", "").removeprefix("$"))
    except InvalidOperation:
        raise InvalidField(flag, f"must be US dollars, such as 5000, not {text[:40]!r}") from None
