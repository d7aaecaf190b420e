"""Login of browsers, logout, and the audit trail."""

from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import JSONResponse, RedirectResponse

from app.access import audit
from app.access.guard import CurrentActor, Guard, current_guard, shown_actor
from app.access.login import AttemptLimit, log_in, log_out
from app.access.next_page import local_page
from app.errors import wants_html
from app.render import page_response
from app.sent_form import sent_form
from app.service import CurrentService, ReadSession, WriteSession

MAX_ENTRIES = 500
CurrentGuard = Annotated[Guard, Depends(current_guard)]
router = APIRouter(include_in_schema=False)


@router.get("/login")
def login_page(request: Request, guard: CurrentGuard) -> Response:
    """The field for a key; whoever is logged in, or needs no key, is led on."""
    target = local_page(request.query_params.get("next", "/"))
    if not guard.is_needed or shown_actor(request) is not None:
        return RedirectResponse(target, status_code=303)
    return _page(request, target, "")


@router.post("/login")
def login(
    request: Request,
    values: Annotated[Any, Depends(sent_form)],
    guard: CurrentGuard,
    service: CurrentService,
) -> Response:
    """Log a browser in with a key. Raises TooMany."""
    target = local_page(values.get("next", ["/"])[0])
    if not guard.is_needed:
        return RedirectResponse(target, status_code=303)
    attempts: AttemptLimit = request.app.state.attempts
    attempts.count(request.client.host if request.client else "")
    with service.database.writing() as session:
        found = log_in(session, values.get("key", [""])[0].strip(), datetime.now(UTC))
        if found is not None:
            audit.record(session, found.actor, "login", found.actor.name)
    if found is None:
        return _page(request, target, "this key is not known, or was revoked")
    response = RedirectResponse(target, status_code=303)
    response.headers["Set-Cookie"] = guard.cookie.header(found.token)
    return response


@router.post("/logout")
def logout(request: Request, guard: CurrentGuard, session: WriteSession) -> Response:
    """End the login of this browser."""
    token = guard.login_token(request)
    if token is not None:
        log_out(session, token)
    response = RedirectResponse("/login", status_code=303)
    response.headers["Set-Cookie"] = guard.cookie.ending_header()
    return response


@router.get("/audit")
def audit_trail(
    request: Request,
    session: ReadSession,
    _actor: CurrentActor,
    limit: Annotated[int, Query(ge=1, le=MAX_ENTRIES)] = 100,
    before: Annotated[int | None, Query(ge=1, le=2**62)] = None,
) -> Any:
    """Who did what, newest first."""
    rows = [audit.entry_json(each) for each in audit.entries(session, limit, before)]
    older = rows[-1]["id"] if len(rows) == limit else None
    if wants_html(request):
        return page_response(request, "audit.html", {"rows": rows, "older": older, "limit": limit})
    return JSONResponse({"entries": rows, "older": older}, headers={"Vary": "Accept"})


def _page(request: Request, target: str, error: str) -> Response:
    context = {"next": target, "error": error}
    return page_response(request, "login.html", context, 401 if error else 200)
