"""GET /healthz: whether the service can answer."""

from fastapi import APIRouter

from advisor import __version__
from app.service import CurrentService

router = APIRouter()


@router.get("/healthz")
def healthz(service: CurrentService) -> dict[str, str]:
    """200 when the database is migrated, loaded and reachable; else 503."""
    service.database.ping()
    return {"status": "ok", "version": __version__}
