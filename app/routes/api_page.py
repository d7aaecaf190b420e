"""The page for programs."""

from fastapi import APIRouter, Request, Response

from app.render_api import render_api
from app.service import CurrentService

router = APIRouter(include_in_schema=False)


@router.get("/api")
def api_page(request: Request, service: CurrentService) -> Response:
    """How programs ask: the question in the address as code, and every route."""
    query = request.query_params
    values = {
        name: query.getlist(name) for name in query if any(map(str.strip, query.getlist(name)))
    }
    return render_api(request, values, service)
