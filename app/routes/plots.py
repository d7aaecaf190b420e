"""Plots of a stored answer: as a page, as JSON, and each table as CSV."""

from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from app.calibrations import knowledge_of_answer
from app.errors import NotFound, wants_html
from app.plots.answer_figures import answer_figures
from app.plots.figure import Figure
from app.recommendations import Answer, stored
from app.render import page_response
from app.service import CurrentService, ReadSession, Service

router = APIRouter()


@router.get("/recommendations/{identity}/plots")
def plots(request: Request, identity: str, service: CurrentService, session: ReadSession) -> Any:
    """The figures behind a stored answer: micro batches, cost and time, memory, instances."""
    given = stored(session, identity)
    figures = _figures(given, service, session)
    if wants_html(request):
        context = {"content": given.content, "figures": figures}
        return page_response(request, "figures.html", context)
    return JSONResponse({"id": given.id, "figures": [each.as_json() for each in figures]})


@router.get("/recommendations/{identity}/plots/{name}.csv", response_class=Response)
def plot_table(identity: str, name: str, service: CurrentService, session: ReadSession) -> Response:
    """The table of one figure as CSV."""
    given = stored(session, identity)
    found = {each.name: each for each in _figures(given, service, session)}
    if name not in found:
        known = ", ".join(found) or "none: nothing fits in it"
        raise NotFound(f"the answer has no such figure; it has {known}")
    # The name is one of our own by now.
    headers = {"Content-Disposition": f'attachment; filename="{given.id}-{name}.csv"'}
    return Response(found[name].as_csv(), media_type="text/csv; charset=utf-8", headers=headers)


def _figures(given: Answer, service: Service, session: ReadSession) -> tuple[Figure, ...]:
    knowledge = knowledge_of_answer(session, given.content, service.knowledge())
    with service.slots.one():
        return answer_figures(given.content, knowledge)
