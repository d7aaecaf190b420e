"""The guard before every route: who asks, whether they may, and whether a form is of their own.

One table says which role each route needs; a route that is not in it is refused to everybody.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated

import anyio
from fastapi import Depends, FastAPI, Request
from fastapi.responses import RedirectResponse, Response
from markupsafe import Markup

from app.access.csrf import (
    FIELD,
    HEADER,
    SAFE_METHODS,
    check_origin,
    check_token,
    csrf_token,
    token_of,
)
from app.access.errors import NotAllowed, NotLoggedIn, TooMany
from app.access.keys import authenticate
from app.access.login import LoginCookie, find_login
from app.access.next_page import login_address
from app.access.roles import LOCAL, Actor, Role
from app.access.safety import keys_are_needed
from app.database import Database
from app.errors import render_error, wants_html
from app.sent_form import read_form
from app.settings import Settings

# Routes that anybody may use: they hold nothing of anyone's.
PUBLIC = frozenset(
    {("GET", "/healthz"), ("GET", "/login"), ("POST", "/login"), ("GET", "/language/{name}")}
)
ROLES: Mapping[tuple[str, str], Role] = {
    ("GET", "/"): Role.VIEWER,
    ("POST", "/"): Role.VIEWER,
    ("GET", "/api"): Role.VIEWER,
    ("POST", "/recommend"): Role.VIEWER,
    ("GET", "/recommendations/{identity}"): Role.VIEWER,
    ("GET", "/recommendations/{identity}/plots"): Role.VIEWER,
    ("GET", "/recommendations/{identity}/plots/{name}.csv"): Role.VIEWER,
    ("GET", "/results"): Role.VIEWER,
    ("POST", "/results"): Role.SUBMITTER,
    ("POST", "/sweep"): Role.VIEWER,
    ("GET", "/compare"): Role.VIEWER,
    ("POST", "/compare"): Role.VIEWER,
    ("GET", "/accuracy"): Role.VIEWER,
    ("GET", "/catalog/models"): Role.VIEWER,
    ("GET", "/catalog/instances"): Role.VIEWER,
    ("GET", "/jobs"): Role.VIEWER,
    ("GET", "/jobs/{identity}"): Role.VIEWER,
    ("GET", "/jobs/{identity}/events"): Role.VIEWER,
    ("POST", "/jobs/preview"): Role.VIEWER,
    ("GET", "/jobs/new"): Role.SUBMITTER,
    ("GET", "/jobs/new/files/{name}"): Role.SUBMITTER,
    ("POST", "/jobs/new"): Role.SUBMITTER,
    ("POST", "/jobs"): Role.SUBMITTER,
    ("POST", "/jobs/{identity}/stop"): Role.SUBMITTER,
    ("POST", "/jobs/{identity}/resume"): Role.SUBMITTER,
    ("GET", "/plans"): Role.VIEWER,
    ("GET", "/plans/offers"): Role.VIEWER,
    ("POST", "/plans/offers"): Role.ADMIN,
    ("POST", "/plans/search"): Role.VIEWER,
    ("POST", "/plans"): Role.ADMIN,
    ("POST", "/logout"): Role.VIEWER,
    ("GET", "/audit"): Role.ADMIN,
}
# Their forms are sent with their fields in the address too, where a token must not be. Nothing of
# anyone's changes by them, and the cookie does not come with what another website sends.
WITHOUT_TOKEN = frozenset({("POST", "/")})
_SCHEME = "bearer "


class Guard:
    """Tells who asks. Made once for an application."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self.settings = settings
        self.is_needed = keys_are_needed(settings)
        self.cookie = LoginCookie(settings)
        self._database = database

    def identify(self, request: Request) -> Actor | None:
        """Who asks, by a key or by a login; None for nobody. Sets the token of their forms."""
        now = datetime.now(UTC)
        given = request.headers.get("authorization", "")
        if given.lower().startswith(_SCHEME):
            return authenticate(self._database, given[len(_SCHEME) :].strip(), now)
        token = self.login_token(request)
        if token is None:
            return None
        with self._database.reading() as session:
            found = find_login(session, token, now)
        if found is None:
            return None
        setattr(request.state, FIELD, token_of(token, self.settings.secret_key))
        return found.actor

    def login_token(self, request: Request) -> str | None:
        """The token in a request's cookie; None without one that we signed."""
        value = request.cookies.get(self.cookie.name)
        return None if value is None else self.cookie.token(value)


async def guard(request: Request) -> None:
    """Before every route: raise NotLoggedIn or NotAllowed, or note who asks."""
    found = current_guard(request)
    check_origin(request, found.settings)
    if not found.is_needed:
        request.state.actor = LOCAL
        return
    actor = await anyio.to_thread.run_sync(found.identify, request)
    if actor is not None:
        request.state.actor = actor
    place = (_method(request), request.scope["route"].path)
    if place in PUBLIC:
        return
    if actor is None:
        raise NotLoggedIn(
            "a key is needed: send it as Authorization: Bearer swk_…, or log in at /login. An "
            "admin makes one with: shardwise keys create NAME"
        )
    needed = ROLES.get(place)
    if needed is None or actor.role < needed:
        wanted = "nobody" if needed is None else f"the role {needed.label}"
        raise NotAllowed(
            f"this is for {wanted}, and the key {actor.name} has the role {actor.role.label}: ask "
            "an admin for another key"
        )
    expected = csrf_token(request)
    if expected and request.method not in SAFE_METHODS and place not in WITHOUT_TOKEN:
        check_token(await _sent_token(request), expected)


def install_guard(app: FastAPI) -> None:
    """Answer those who are not logged in, and those who try too often, as browsers expect."""
    app.add_exception_handler(NotLoggedIn, _on_not_logged_in)
    app.add_exception_handler(TooMany, _on_too_many)


def current_guard(request: Request) -> Guard:
    """The guard of this application."""
    found = request.app.state.guard
    if not isinstance(found, Guard):
        raise TypeError("the application has no guard")
    return found


def current_actor(request: Request) -> Actor:
    """Who asks. Raises NotLoggedIn where the guard has noted nobody."""
    found = getattr(request.state, "actor", None)
    if not isinstance(found, Actor):
        raise NotLoggedIn("a key is needed")
    return found


def shown_actor(request: Request) -> Actor | None:
    """Who is logged in, for the head of a page; None without keys and without a login."""
    found = getattr(request.state, "actor", None)
    return found if isinstance(found, Actor) and found.key_id is not None else None


def csrf_field(request: Request) -> Markup:
    """The hidden field that each form that changes something carries."""
    token = csrf_token(request)
    if not token:
        return Markup()
    return Markup('<input type="hidden" name="{}" value="{}">').format(FIELD, token)


CurrentActor = Annotated[Actor, Depends(current_actor)]


def _method(request: Request) -> str:
    return "GET" if request.method == "HEAD" else request.method


async def _sent_token(request: Request) -> str:
    """The token that came with a request, in its header or in its form."""
    given = request.headers.get(HEADER)
    if given is not None:
        return given
    form = await read_form(request)
    found = form.get(FIELD, "")
    return found if isinstance(found, str) else ""


def _on_not_logged_in(request: Request, error: Exception) -> Response:
    if not isinstance(error, NotLoggedIn):
        raise error
    if wants_html(request) and request.method in SAFE_METHODS:
        return RedirectResponse(login_address(request.url), status_code=303)
    response = render_error(request, error.status, error.code, error.detail)
    response.headers["WWW-Authenticate"] = 'Bearer realm="shardwise"'
    return response


def _on_too_many(request: Request, error: Exception) -> Response:
    if not isinstance(error, TooMany):
        raise error
    response = render_error(request, error.status, error.code, error.detail)
    response.headers["Retry-After"] = str(error.retry_after_s)
    return response
