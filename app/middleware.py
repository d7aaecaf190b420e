"""Middleware around every request: its id, its log line, security headers, limits, and bugs."""

import logging
import re
import secrets
import time

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request, cookie_parser
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.errors import BUG, PayloadTooLarge, render_error
from app.logs import REQUEST_ID
from app.translations.language import COOKIE, LANGUAGE, language_of

# Scripts and styles come from this service alone. The hash is that of an empty style element: the
# plots fill one through the DOM, and an element with any text of its own is still refused.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; connect-src 'self'; "
    "style-src 'self' 'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='; img-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
SECURITY_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
# Longer bodies are not read to their end before they are refused.
MAX_DISCARDED_BYTES = 64 * 1024**2
_USABLE_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_logger = logging.getLogger("app.requests")


class RequestContext:
    """Gives each request an id and a language, logs it once, and makes a 500 of any bug."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        given = headers.get("x-request-id", "")
        token = REQUEST_ID.set(given if _USABLE_ID.fullmatch(given) else secrets.token_hex(8))
        chosen = cookie_parser(headers.get("cookie", "")).get(COOKIE, "")
        language = LANGUAGE.set(language_of(chosen, headers.get("accept-language", "")))
        try:
            await self._handle(scope, receive, send)
        finally:
            LANGUAGE.reset(language)
            REQUEST_ID.reset(token)

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        status = 0
        started_s = time.perf_counter()

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["X-Request-ID"] = REQUEST_ID.get()
                for name, value in SECURITY_HEADERS.items():
                    headers[name] = value
                if headers.get("content-type", "").startswith("text/html"):
                    headers["Content-Language"] = LANGUAGE.get()
                    headers["Vary"] = "Accept, Accept-Language, Cookie"
            await send(message)

        try:
            await self._app(scope, receive, send_with_headers)
        except Exception:
            _logger.exception("unexpected error")
            if status:
                raise
            detail = "this is a bug; the log has the details under the request id"
            response = render_error(Request(scope), 500, BUG, detail)
            await response(scope, receive, send_with_headers)
        duration_ms = round((time.perf_counter() - started_s) * 1000, 1)
        _logger.info(
            "request",
            extra={
                "method": scope["method"],
                "path": scope["path"],
                "status": status,
                "duration_ms": duration_ms,
            },
        )


async def _discard(receive: Receive) -> None:
    """Read a body to its end: a client that is still sending would miss the answer."""
    while (await receive()).get("more_body", False):
        pass


class BodyLimit:
    """Refuses bodies of more than max_bytes with 413, declared or not."""

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self._app = app
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        detail = f"the body is longer than {self._max_bytes:,} bytes"
        declared = Headers(scope=scope).get("content-length", "")
        if declared.isascii() and declared.isdigit() and int(declared[:20]) > self._max_bytes:
            if int(declared[:20]) <= MAX_DISCARDED_BYTES:
                await _discard(receive)
            too_large = PayloadTooLarge(detail)
            response = render_error(
                Request(scope), too_large.status, too_large.code, too_large.detail
            )
            await response(scope, receive, send)
            return
        num_bytes = 0

        async def counted() -> Message:
            nonlocal num_bytes
            message = await receive()
            num_bytes += len(message.get("body", b""))
            if num_bytes > self._max_bytes:
                raise HTTPException(PayloadTooLarge.status, detail)
            return message

        await self._app(scope, counted, send)
