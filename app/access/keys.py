"""API keys: created, found again from their text, listed and revoked. Only a hash is stored.

A key is swk_ID_SECRET. The secret has 256 random bits, so that one round of SHA-256 is as hard to
undo as any slow hash of it: there is no list of likely secrets to try.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal

from sqlalchemy import or_, select, update
from sqlalchemy.orm import Session

from advisor.errors import InvalidField
from app.access.roles import RESERVED_NAMES, Actor, Role
from app.access.tables import ApiKey, Login
from app.database import Database, insert_unless_there
from app.errors import Conflict, NotFound

PREFIX = "swk"
ID_BYTES, SECRET_BYTES = 8, 32
# How fresh last_used_at is: each request of a busy key would else be a write.
USE_INTERVAL = timedelta(minutes=1)
# Far above any bill; a longer number would not fit into the database.
MAX_CAP_USD = Decimal(10**12)
_KEY = re.compile(rf"{PREFIX}_([0-9a-f]{{{2 * ID_BYTES}}})_([0-9a-f]{{{2 * SECRET_BYTES}}})")
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9 ._@+-]{0,98}[A-Za-z0-9])?")
# What the secret of an unknown id is compared with, so that it takes as long as any other.
_NO_HASH = hashlib.sha256(b"").hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKey:
    """A key that was just created. text: the whole key, which nothing can show a second time."""

    actor: Actor
    text: str = field(repr=False)


def create_key(
    session: Session,
    name: str,
    role: Role,
    now: datetime,
    *,
    max_usd_per_job: Decimal | None = None,
    max_usd_per_month: Decimal | None = None,
) -> NewKey:
    """Store a new key and give its text once. Raises InvalidField, and Conflict on a taken name."""
    _check_name(name)
    _check_cap("max_usd_per_job", max_usd_per_job)
    _check_cap("max_usd_per_month", max_usd_per_month)
    identity, secret = secrets.token_hex(ID_BYTES), secrets.token_hex(SECRET_BYTES)
    row = {
        "id": identity,
        "name": name,
        "role": role.label,
        "hash": hash_of(secret),
        "max_usd_per_job": max_usd_per_job,
        "max_usd_per_month": max_usd_per_month,
        "created_at": now,
    }
    if not insert_unless_there(session, ApiKey, row):
        raise Conflict(
            f"a key named {name} exists; a revoked one keeps its name too, for the audit trail. "
            "Take another name"
        )
    actor = actor_of(session.get_one(ApiKey, identity))
    return NewKey(actor=actor, text=f"{PREFIX}_{identity}_{secret}")


def revoke_key(session: Session, name: str, now: datetime) -> ApiKey:
    """End a key and all its logins at once. Raises NotFound; a revoked key stays as it is."""
    query = select(ApiKey).where(ApiKey.name == name).with_for_update()
    key = session.scalars(query).one_or_none()
    if key is None:
        raise NotFound(f"no key is named {name[:100]}; see: shardwise keys list")
    if key.revoked_at is None:
        key.revoked_at = now
    for login in session.scalars(select(Login).where(Login.key_id == key.id)):
        session.delete(login)
    return key


def list_keys(session: Session) -> Sequence[ApiKey]:
    """Every key, revoked ones too, oldest first."""
    return session.scalars(select(ApiKey).order_by(ApiKey.created_at, ApiKey.id)).all()


def has_keys(session: Session, role: Role = Role.VIEWER) -> bool:
    """Whether a key of at least this role can be used."""
    labels = [each.label for each in Role if each >= role]
    query = select(ApiKey.id).where(ApiKey.revoked_at.is_(None), ApiKey.role.in_(labels)).limit(1)
    return session.scalar(query) is not None


def find_key(session: Session, text: str) -> ApiKey | None:
    """The key with this text; None where it is not known, wrong, or revoked.

    A wrong secret takes as long as an unknown id: what differs is no help to whoever guesses.
    """
    match = _KEY.fullmatch(text)
    key = None if match is None else session.get(ApiKey, match[1])
    stored = _NO_HASH if key is None else key.hash
    is_right = hmac.compare_digest(hash_of("" if match is None else match[2]), stored)
    return key if key is not None and is_right and key.revoked_at is None else None


def authenticate(database: Database, text: str, now: datetime) -> Actor | None:
    """Who a key's text stands for; None for nobody. Its use is noted, at most once a minute."""
    with database.reading() as session:
        key = find_key(session, text)
    if key is None:
        return None
    if key.last_used_at is None or now - key.last_used_at >= USE_INTERVAL:
        with database.writing() as session:
            note_use(session, key.id, now)
    return actor_of(key)


def note_use(session: Session, key_id: str, now: datetime) -> None:
    """Store when a key was used last, unless that was less than a minute ago."""
    is_old = or_(ApiKey.last_used_at.is_(None), ApiKey.last_used_at <= now - USE_INTERVAL)
    session.execute(update(ApiKey).where(ApiKey.id == key_id, is_old).values(last_used_at=now))


def actor_of(key: ApiKey) -> Actor:
    """The actor that a stored key stands for."""
    return Actor(
        name=key.name,
        role=Role.named(key.role),
        key_id=key.id,
        max_usd_per_job=key.max_usd_per_job,
        max_usd_per_month=key.max_usd_per_month,
    )


def hash_of(secret: str) -> str:
    """What is stored of a random secret."""
    return hashlib.sha256(secret.encode()).hexdigest()


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise InvalidField(
            "name",
            "must have 1 to 100 letters, digits, spaces or . _ @ + - and begin and end with a "
            "letter or a digit",
        )
    if name.lower() in RESERVED_NAMES:
        raise InvalidField("name", f"{name} is what the audit trail calls somebody else")


def _check_cap(field_name: str, cap: Decimal | None) -> None:
    if cap is not None and not (cap.is_finite() and 0 < cap <= MAX_CAP_USD):
        raise InvalidField(
            field_name, f"must be US dollars above 0 and at most {MAX_CAP_USD:,}; or leave it out"
        )
