"""Pages that start jobs: the form with its checks, its files, and the confirmation."""

from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import RedirectResponse, Response

from advisor.errors import AdvisorError
from app.access.errors import BudgetExceeded
from app.access.guard import CurrentActor
from app.errors import FieldError, NotFound
from app.job_starts import start_job
from app.launch_form import parse_launch, placed
from app.render_jobs import launch_file, render_launch
from app.sent_form import sent_form
from app.service import CurrentService, WriteSession

router = APIRouter(include_in_schema=False)


@router.get("/jobs/new")
def launch_page(request: Request, service: CurrentService, actor: CurrentActor) -> Response:
    """The form; with a query that says what to run, the checks too."""
    query = request.query_params
    values = {name: query.getlist(name) for name in query if query[name].strip()}
    return render_launch(request, values, service, actor)


@router.get("/jobs/new/files/{name}")
def launch_download(
    request: Request, name: str, service: CurrentService, actor: CurrentActor
) -> Response:
    """One file for people who launch the job themselves."""
    query = request.query_params
    values = {each: query.getlist(each) for each in query if query[each].strip()}
    text = launch_file(values, service, actor, name)
    if text is None:
        raise NotFound("there is no such file for this job")
    # The name is one of the preview's own by now.
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(text, media_type="text/plain; charset=utf-8", headers=headers)


@router.post("/jobs/new")
def launch(
    request: Request,
    values: Annotated[Any, Depends(sent_form)],
    service: CurrentService,
    session: WriteSession,
    actor: CurrentActor,
) -> Response:
    """Start what was confirmed; a form that is sent twice starts one job."""
    parsed = parse_launch(values, has_sagemaker="sagemaker" in service.backends)
    wanted = parsed.request
    if wanted is None:
        return render_launch(request, values, service, actor, parsed.errors)
    try:
        job = start_job(session, wanted, service.settings, actor, datetime.now(UTC))
    except AdvisorError as error:
        wrong = placed([FieldError(field=error.field, detail=error.detail)])
        return render_launch(request, values, service, actor, wrong)
    except BudgetExceeded as error:
        over = {"max_runtime_hours": error.detail}
        return render_launch(request, values, service, actor, over)
    service.worker.wake()
    return RedirectResponse(f"/jobs/{job.id}", status_code=303)
