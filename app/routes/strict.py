"""StrictJsonRoute: a route whose body is read by app.strict_json."""

import json
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

from app.strict_json import StrictJsonError, parse_json


class StrictRequest(Request):
    """A request whose JSON has no NaN, no broken text and no endless depth."""

    async def json(self) -> Any:
        """The parsed body. Raises JSONDecodeError, which FastAPI answers with 422."""
        try:
            return parse_json(await self.body())
        except StrictJsonError as error:
            raise json.JSONDecodeError(str(error), "", 0) from None


class StrictJsonRoute(APIRoute):
    """Reads bodies strictly."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler, given a StrictRequest."""
        handle = super().get_route_handler()

        async def strictly(request: Request) -> Response:
            return await handle(StrictRequest(request.scope, request.receive))

        return strictly
