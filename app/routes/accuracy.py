"""GET /accuracy: how far predictions are from the stored results, as JSON and as a page."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from app.accuracy import FILTERS, accuracy_json
from app.errors import wants_html
from app.render import render_accuracy
from app.service import CurrentService, ReadSession

Value = Annotated[str, Query(max_length=200, pattern=r"^[^\x00]*$")]
router = APIRouter()


@router.get("/accuracy")
def accuracy(
    request: Request,
    service: CurrentService,
    session: ReadSession,
    gpu: Value = "",
    precision: Value = "",
    stack: Value = "",
    source: Value = "",
) -> Any:
    """Predicted against measured, for results whose own source the calibration has not seen."""
    wanted = dict(zip(FILTERS, (gpu, precision, stack, source), strict=True))
    report = accuracy_json(service.accuracy.current(session), session, service, wanted)
    if wants_html(request):
        return render_accuracy(request, report, wanted)
    return report
