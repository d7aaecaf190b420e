"""The switch of the language: a cookie, and back to the page it was thrown on."""

from datetime import timedelta

from fastapi import APIRouter, Response
from fastapi.responses import RedirectResponse

from app.access.next_page import local_page
from app.errors import NotFound
from app.translations.language import COOKIE, NAMES

KEPT_FOR = timedelta(days=365)
router = APIRouter(include_in_schema=False)


@router.get("/language/{name}")
def choose_language(name: str, next: str = "/") -> Response:  # noqa: A002 - its name in the address
    """Answer in this language from now on. Raises NotFound."""
    if name not in NAMES:
        raise NotFound(f"pages are in {' and '.join(NAMES)}")
    response = RedirectResponse(local_page(next), status_code=303)
    response.set_cookie(
        COOKIE, name, max_age=int(KEPT_FOR.total_seconds()), httponly=True, samesite="lax"
    )
    return response
