"""create_app(): the application, put together from its settings."""

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

from fastapi import Depends, FastAPI
from fastapi.staticfiles import StaticFiles

from advisor import __version__
from app.access.guard import Guard, guard, install_guard
from app.access.login import AttemptLimit
from app.access.safety import check_start
from app.errors import install_handlers
from app.middleware import BodyLimit, RequestContext
from app.openapi_document import install_document
from app.render import templates
from app.routes import (
    accuracy,
    api,
    api_page,
    health,
    job_pages,
    jobs,
    language,
    login,
    pages,
    plan_pages,
    plans,
    plots,
    what_if,
)
from app.service import Service
from app.settings import Settings

SHUTDOWN_WAIT_S = 10.0
# job_pages before jobs: /jobs/new is no job's id.
ROUTERS = tuple(
    each.router
    for each in (
        health,
        language,
        login,
        api,
        api_page,
        accuracy,
        what_if,
        plots,
        job_pages,
        jobs,
        plan_pages,
        plans,
        pages,
    )
)


def create_app(settings: Settings) -> FastAPI:
    """The application. Nothing is opened before it starts. Raises SettingsError."""
    check_start(settings, None)
    service = Service.from_settings(settings)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        # Requests are answered meanwhile; those that need what is not ready yet wait for it.
        warm_up = threading.Thread(target=service.warm_up, name="warm-up", daemon=True)
        warm_up.start()
        working = threading.Thread(target=service.worker.run, name="worker", daemon=True)
        if settings.worker == "embedded":
            working.start()
        yield
        service.worker.stop()
        if working.is_alive():
            working.join(timeout=SHUTDOWN_WAIT_S)
        warm_up.join(timeout=SHUTDOWN_WAIT_S)
        service.database.dispose()

    app = FastAPI(
        title="Shardwise",
        version=__version__,
        description="Training settings that fit, with their speed, cost and evidence.",
        lifespan=lifespan,
        dependencies=[Depends(guard)],
        # Their pages load scripts from elsewhere; /openapi.json has all that they show.
        docs_url=None,
        redoc_url=None,
    )
    app.state.service = service
    app.state.database = service.database
    app.state.guard = Guard(settings, service.database)
    app.state.attempts = AttemptLimit(lambda: datetime.now(UTC))
    app.state.templates = templates(settings)
    app.add_middleware(BodyLimit, max_bytes=settings.max_body_bytes)
    app.add_middleware(RequestContext)
    install_handlers(app)
    install_guard(app)
    for each in ROUTERS:
        app.include_router(each)
    install_document(app, needs_key=app.state.guard.is_needed)
    # The plotting library's script comes with its package: it works in a closed network too.
    app.mount("/static/plotly", StaticFiles(packages=[("plotly", "package_data")]))
    app.mount("/static", StaticFiles(directory=Path(__file__).parent / "static"), name="static")
    return app
