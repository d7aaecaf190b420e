"""The page: a form, and under it the answer. It works without JavaScript."""

from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import RedirectResponse

from app.render import render_comparison, render_form
from app.sent_form import sent_form
from app.service import CurrentService, WriteSession

router = APIRouter(include_in_schema=False)


@router.get("/")
def page(request: Request, service: CurrentService, session: WriteSession) -> Response:
    """The form; with a query, the answer too: such an address can be shared."""
    query = request.query_params
    filled = [(name, value) for name, value in query.multi_items() if value.strip()]
    if len(filled) < len(query.multi_items()):
        # A browser sends blank fields too; the address to share has none.
        return RedirectResponse("/?" + urlencode(filled) if filled else "/", status_code=303)
    values = {name: query.getlist(name) for name in query}
    return render_form(request, values, service, session)


@router.post("/")
def answer_page(
    request: Request,
    values: Annotated[Any, Depends(sent_form)],
    service: CurrentService,
    session: WriteSession,
) -> Response:
    """The answer to a posted form: the way for a config.json, which no address can hold."""
    return render_form(request, values, service, session)


@router.get("/compare")
def compare_page(request: Request, service: CurrentService) -> Response:
    """Today's cluster beside one P6-B200 node and beside the best that is found, as a page."""
    query = request.query_params
    values = {name: query.getlist(name) for name in query}
    return render_comparison(request, values, service)
