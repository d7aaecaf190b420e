"""The JSON interface. Browsers that ask for HTML get pages at the same addresses."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import StringConstraints

from advisor.result import Result
from app.access import audit
from app.access.guard import CurrentActor
from app.benchmarks import ResultFilter, choices, find_results
from app.calibrations import knowledge_if_there
from app.catalog_json import instances_json, models_json
from app.errors import wants_html
from app.recommendations import stored
from app.render import render_answer, render_results
from app.routes.strict import StrictJsonRoute
from app.schemas import RecommendRequest, ResultUpload
from app.service import CurrentService, ReadSession, WriteSession

MAX_LIMIT = 1000
FilterText = Annotated[str, StringConstraints(max_length=200, pattern=r"^[^\x00]*$")]
Flag = Literal["true", "false", ""]
Scope = Literal["in", "out", ""]
router = APIRouter(route_class=StrictJsonRoute)


@router.post("/recommend", response_class=Response)
def recommend(question: RecommendRequest, service: CurrentService, session: WriteSession) -> Any:
    """Settings that fit, with their memory, speed, cost, evidence, reasons and alternatives."""
    given = service.recommend(question, session)
    return Response(given.body, media_type="application/json")


@router.get("/recommendations/{identity}", response_class=Response)
def recommendation(
    request: Request, identity: str, service: CurrentService, session: ReadSession
) -> Any:
    """A stored answer: the same bytes as when it was given."""
    given = stored(session, identity)
    if wants_html(request):
        knowledge = knowledge_if_there(session, given.content, service.knowledge())
        return render_answer(request, given, knowledge)
    return Response(given.body, media_type="application/json", headers={"Vary": "Accept"})


@router.get("/results")
def results(
    request: Request,
    session: ReadSession,
    gpu: FilterText = "",
    framework: FilterText = "",
    model: FilterText = "",
    precision: FilterText = "",
    source: FilterText = "",
    has_memory: Flag = "",
    scope: Scope = "",
    limit: Annotated[int, Query(ge=1, le=MAX_LIMIT)] = 100,
    offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
) -> Any:
    """Stored benchmark results that match, with provenance and scope."""
    wanted = ResultFilter(
        gpu=gpu,
        framework=framework,
        model=model,
        precision=precision,
        source=source,
        has_memory={"true": True, "false": False}.get(has_memory),
        in_scope={"in": True, "out": False}.get(scope),
        limit=limit,
        offset=offset,
    )
    page = find_results(session, wanted)
    if wants_html(request):
        return render_results(request, wanted, page, choices(session))
    return {"total": page.total, "limit": limit, "offset": offset, "results": page.rows}


@router.post("/results", status_code=201, response_model=dict[str, int])
def upload(
    sent: ResultUpload, service: CurrentService, session: WriteSession, actor: CurrentActor
) -> Response:
    """Store measurements of the user's own: all rows or none."""
    rows = [Result(**row.model_dump()) for row in sent.rows]
    added = service.add_results(rows, session, uploaded_by=sent.uploaded_by)
    if added.num_added:
        audit.record(session, actor, "results.add", f"{added.num_added} results")
    # A response is not made into one by another thread, for which the transaction would wait while
    # all threads wait for it.
    content = {"num_added": added.num_added, "num_unchanged": added.num_unchanged}
    return JSONResponse(content, status_code=201)


@router.get("/catalog/models")
def models() -> dict[str, Any]:
    """Every model that has a name here, with its exact parameter count and its source."""
    return models_json()


@router.get("/catalog/instances")
def instances(service: CurrentService) -> dict[str, Any]:
    """Every instance type with its GPU and its published prices."""
    return instances_json(service.knowledge().catalog)
