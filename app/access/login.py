"""Logins of browsers: a key is typed once, and a cookie stands for it until it runs out.

The cookie has a random token and a signature; the database has the token's hash. A key that is
revoked ends its logins, and a login can be ended by itself.
"""

import hashlib
import ipaddress
import secrets
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from itsdangerous import BadSignature, Signer
from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from app.access.errors import TooMany
from app.access.keys import actor_of, find_key, hash_of, note_use
from app.access.roles import Actor
from app.access.safety import is_loopback
from app.access.tables import ApiKey, Login
from app.settings import Settings

LIFETIME = timedelta(hours=12)
TOKEN_BYTES = 32
MAX_ATTEMPTS, ATTEMPTS_IN = 10, timedelta(minutes=1)
# Addresses that are remembered; the one not seen for longest is forgotten first.
MAX_ADDRESSES = 10_000
# A customer of a provider has at least this many bits of IPv6 addresses to try from.
_IPV6_NETWORK_BITS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedIn:
    """A browser's login. token: the secret in its cookie."""

    actor: Actor
    token: str = field(repr=False)
    expires_at: datetime


class LoginCookie:
    """The cookie of logins: how it is named, written and read."""

    def __init__(self, settings: Settings) -> None:
        self.is_secure = not is_loopback(settings.host)
        # Browsers take a name with this prefix only with Secure, Path=/ and no Domain.
        self.name = f"{'__Host-' if self.is_secure else ''}shardwise_login"
        self._signer = Signer(
            settings.secret_key, salt="shardwise.login", digest_method=hashlib.sha256
        )

    def value(self, token: str) -> str:
        """The signed token."""
        return self._signer.sign(token).decode()

    def token(self, value: str) -> str | None:
        """The token in a cookie; None where the signature is not ours."""
        try:
            return self._signer.unsign(value).decode()
        except (BadSignature, UnicodeError):
            return None

    def header(self, token: str) -> str:
        """The Set-Cookie header of a new login."""
        return self._header(self.value(token), max_age_s=int(LIFETIME.total_seconds()))

    def ending_header(self) -> str:
        """The Set-Cookie header that removes the cookie."""
        return self._header("", max_age_s=0)

    def _header(self, value: str, max_age_s: int) -> str:
        parts = (f"{self.name}={value}", f"Max-Age={max_age_s}", "Path=/", "HttpOnly")
        secure = ("Secure",) if self.is_secure else ()
        return "; ".join((*parts, "SameSite=Strict", *secure))


class AttemptLimit:
    """Counts attempts by client address, in this process's memory."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._attempts: OrderedDict[str, deque[datetime]] = OrderedDict()

    def count(self, address: str) -> None:
        """Count one more. Raises TooMany beyond the share of an address, which is not counted."""
        name, now = _network(address), self._clock()
        with self._lock:
            times = self._attempts.setdefault(name, deque())
            self._attempts.move_to_end(name)
            while times and now - times[0] >= ATTEMPTS_IN:
                times.popleft()
            if len(times) >= MAX_ATTEMPTS:
                wait_s = max(1, -(-(times[0] + ATTEMPTS_IN - now) // timedelta(seconds=1)))
                raise TooMany(
                    f"too many attempts to log in from this address: try again in {wait_s} s",
                    retry_after_s=wait_s,
                )
            times.append(now)
            while len(self._attempts) > MAX_ADDRESSES:
                self._attempts.popitem(last=False)


def log_in(session: Session, text: str, now: datetime) -> LoggedIn | None:
    """Log a browser in with a key's text; None where no key can be used by it."""
    key = find_key(session, text)
    if key is None:
        return None
    session.execute(delete(Login).where(Login.expires_at <= now))
    token = secrets.token_urlsafe(TOKEN_BYTES)
    expires_at = now + LIFETIME
    session.add(
        Login(hash=hash_of(token), key_id=key.id, created_at=now, expires_at=expires_at),
    )
    note_use(session, key.id, now)
    return LoggedIn(actor=actor_of(key), token=token, expires_at=expires_at)


def find_login(session: Session, token: str, now: datetime) -> LoggedIn | None:
    """The login with this token; None where it ended, ran out, or its key was revoked."""
    query = (
        select(Login.expires_at, ApiKey)
        .join(ApiKey, ApiKey.id == Login.key_id)
        .where(Login.hash == hash_of(token), Login.expires_at > now, ApiKey.revoked_at.is_(None))
    )
    found = session.execute(query).one_or_none()
    if found is None:
        return None
    expires_at, key = found
    return LoggedIn(actor=actor_of(key), token=token, expires_at=expires_at)


def log_out(session: Session, token: str) -> None:
    """End a login; nothing happens when it has ended."""
    session.execute(delete(Login).where(Login.hash == hash_of(token)))


def _network(address: str) -> str:
    """What is counted together: an address, or the network of an IPv6 one."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address[:100]
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, _IPV6_NETWORK_BITS), strict=False))
