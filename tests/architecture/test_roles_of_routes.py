"""Every route has its role in one table, and the table names no route that is not there."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from fastapi.routing import APIRoute
from starlette.routing import BaseRoute

from app.access.guard import PUBLIC, ROLES, WITHOUT_TOKEN
from app.main import create_app
from app.settings import Settings

# What FastAPI and the files themselves answer: nothing of anyone's.
OPEN_PATHS = {"/openapi.json", "/static", "/static/plotly"}


def flat(routes: Iterable[BaseRoute]) -> Iterator[BaseRoute]:
    """The routes, those of included routers too."""
    for route in routes:
        router = getattr(route, "original_router", None)
        if router is None:
            yield route
        else:
            yield from flat(router.routes)


def test_the_table_and_the_routes_are_the_same(tmp_path: Path) -> None:
    app = create_app(Settings(database_url=f"sqlite:///{tmp_path}/test.db"))
    found = list(flat(app.routes))
    routes = {
        (method, route.path)
        for route in found
        if isinstance(route, APIRoute)
        for method in route.methods
    }
    assert routes == set(ROLES) | PUBLIC
    assert not set(ROLES) & PUBLIC
    assert set(ROLES) >= WITHOUT_TOKEN
    others = {getattr(route, "path", "") for route in found} - {path for _, path in routes}
    assert others == OPEN_PATHS
