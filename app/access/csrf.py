"""Requests that another website lets a browser send: told apart by headers and by a token."""

import hashlib
import hmac
from urllib.parse import urlsplit

from fastapi import Request

from app.access.errors import NotAllowed
from app.access.safety import is_loopback, keys_are_needed
from app.settings import Settings

FIELD = "csrf_token"
HEADER = "X-CSRF-Token"
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_FROM_ELSEWHERE = (
    "another website sent this request, so it is refused. Open the page of this service itself, "
    "and send it from there"
)


def token_of(login_token: str, secret_key: str) -> str:
    """The token in the forms of one login; nothing of the login can be told from it."""
    message = b"shardwise.csrf:" + login_token.encode()
    return hmac.new(secret_key.encode(), message, hashlib.sha256).hexdigest()


def csrf_token(request: Request) -> str:
    """The token for a form's hidden field `csrf_token`; "" for whoever needs none."""
    found = getattr(request.state, FIELD, "")
    return found if isinstance(found, str) else ""


def check_token(given: str, expected: str) -> None:
    """Raise NotAllowed unless a form has the token of its login."""
    if not hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode()):
        raise NotAllowed(
            "the form is of another login, or not of this service: open the page anew, and send "
            "it again"
        )


def check_origin(request: Request, settings: Settings) -> None:
    """Raise NotAllowed where another website lets a browser send this request.

    Programs send none of these headers, and no browser lets a page choose them.
    """
    if not keys_are_needed(settings):
        _check_name(request)
    if request.method in SAFE_METHODS:
        return
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        # "none": the user did it, as by loading a page anew. Under this service's own
        # Referrer-Policy browsers send Origin: null with its own forms, so this header goes first.
        if site.lower() not in ("same-origin", "none"):
            raise NotAllowed(_FROM_ELSEWHERE)
        return
    origin = request.headers.get("origin")
    if origin is None:
        return
    own = {request.headers.get("host", "").lower(), urlsplit(settings.public_url).netloc.lower()}
    if urlsplit(origin).netloc.lower() not in own - {""}:
        raise NotAllowed(_FROM_ELSEWHERE)


def _check_name(request: Request) -> None:
    """Without keys, a website whose name is made to lead to this machine is another website still.

    Such a page is of the same origin as this service for a browser, but not under this name.
    """
    is_browser = (
        "origin" in request.headers
        or "sec-fetch-site" in request.headers
        or "mozilla/" in request.headers.get("user-agent", "").lower()
    )
    name = urlsplit(f"//{request.headers.get('host', '')}").hostname or ""
    if is_browser and not is_loopback(name):
        raise NotAllowed(
            f"without keys, this service answers browsers of this machine only, not as "
            f"{name[:100]!r}. Open it as http://127.0.0.1 with its port, or set SHARDWISE_HOST to "
            "an address beyond this machine, for which keys are needed"
        )
