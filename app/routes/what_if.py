"""POST /sweep and POST /compare: the figures of plans that someone names."""

from typing import Any

from fastapi import APIRouter

from app.comparisons import compare
from app.routes.strict import StrictJsonRoute
from app.service import CurrentService
from app.sweeps import sweep
from app.what_if_schemas import CompareRequest, SweepRequest

router = APIRouter(route_class=StrictJsonRoute)


@router.post("/sweep")
def sweep_plans(question: SweepRequest, service: CurrentService) -> dict[str, Any]:
    """Predicted memory and speed over micro batches and checkpointing on one instance type."""
    knowledge = service.knowledge()
    with service.slots.one():
        return sweep(question, knowledge)


@router.post("/compare")
def compare_clusters(question: CompareRequest, service: CurrentService) -> dict[str, Any]:
    """Today's cluster beside one P6-B200 node and beside the best that is found."""
    knowledge = service.knowledge()
    with service.slots.one():
        return compare(question, knowledge)
