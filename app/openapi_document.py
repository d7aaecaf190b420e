"""/openapi.json: what FastAPI tells by itself, with examples, each route's errors, and keys."""

from collections.abc import Mapping
from copy import deepcopy
from functools import cache
from typing import Any

from fastapi import FastAPI

from app.access.guard import PUBLIC
from app.openapi_examples import BODIES, QUERIES

Operation = dict[str, Any]
# What routes refuse beside what follows from what they take.
RAISED: Mapping[tuple[str, str], tuple[int, ...]] = {
    ("POST", "/recommend"): (404, 409),
    ("POST", "/results"): (409,),
    ("POST", "/jobs"): (404, 409, 429),
    ("POST", "/jobs/preview"): (404,),
    ("POST", "/jobs/{identity}/stop"): (409,),
    # The settings of the service may be others than when the job was made.
    ("POST", "/jobs/{identity}/resume"): (409, 422, 429),
    ("GET", "/plans"): (409,),
    ("POST", "/plans/search"): (404, 409),
    ("POST", "/plans"): (404, 409),
}
MEANINGS: Mapping[int, str] = {
    401: "No key, or one that is not known",
    403: "The role of the key is too low, or another website sent the request",
    404: "Nothing is stored under this name",
    409: "It contradicts what is stored, or what the service may do",
    413: "The body is longer than the service reads",
    422: "A field cannot be used",
    429: "Too many jobs are unfinished",
    503: "Something that is needed is away for now",
}
COME_AGAIN = (429, 503)
ERROR_SCHEMA: Mapping[str, Any] = {
    "title": "Error",
    "type": "object",
    "description": "The body of every error.",
    "additionalProperties": False,
    "required": ["error", "detail", "request_id"],
    "properties": {
        "error": {"type": "string", "description": "a code, for programs"},
        "detail": {"type": "string", "description": "what is wrong, and what to do about it"},
        "field": {"type": "string", "description": "the dotted path of the field to blame"},
        "errors": {
            "type": "array",
            "description": "each wrong field, where there are several",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["field", "detail"],
                "properties": {"field": {"type": "string"}, "detail": {"type": "string"}},
            },
        },
        "request_id": {"type": "string", "description": "X-Request-ID, as the log has it"},
    },
}
_UNUSED = ("HTTPValidationError", "ValidationError")


def install_document(app: FastAPI, *, needs_key: bool) -> None:
    """Serve the described document; it is made when it is first asked for."""
    make = app.openapi

    @cache
    def described() -> dict[str, Any]:
        return described_document(make(), needs_key=needs_key)

    # FastAPI's own way to change its document.
    app.openapi = described  # type: ignore[method-assign]


def described_document(plain: Mapping[str, Any], *, needs_key: bool) -> dict[str, Any]:
    """FastAPI's document with examples and errors; with keys where they are needed.

    Raises KeyError where an example is of a route or a field that is not there.
    """
    document = deepcopy(dict(plain))
    parts = document["components"]
    parts["schemas"] = {k: v for k, v in parts["schemas"].items() if k not in _UNUSED}
    parts["schemas"]["Error"] = deepcopy(dict(ERROR_SCHEMA))
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            _add_errors(operation, (method.upper(), path))
    for (method, path), examples in BODIES.items():
        body = document["paths"][path][method.lower()]["requestBody"]
        body["content"]["application/json"]["examples"] = examples
    for (method, path), values in QUERIES.items():
        parameters = document["paths"][path][method.lower()]["parameters"]
        by_name = {each["name"]: each for each in parameters if each["in"] == "query"}
        for name, value in values.items():
            by_name[name]["example"] = value
    if needs_key:
        _add_keys(document)
    return document


def errors_of(operation: Mapping[str, Any], place: tuple[str, str]) -> list[int]:
    """The statuses that a route refuses with. place: its method and path."""
    found = {503, *RAISED.get(place, ())}
    if place not in PUBLIC:
        found |= {401, 403}
    has_body = "requestBody" in operation
    if has_body:
        found.add(413)
    parts = {each["in"] for each in operation.get("parameters", ())}
    if "path" in parts:
        found.add(404)
    # A path is text without limits: what it does not lead to is not found.
    if has_body or parts - {"path"}:
        found.add(422)
    return sorted(found)


def _add_errors(operation: Operation, place: tuple[str, str]) -> None:
    operation["responses"].pop("422", None)
    for status in errors_of(operation, place):
        response: dict[str, Any] = {
            "description": MEANINGS[status],
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
        }
        if status in COME_AGAIN:
            response["headers"] = {
                "Retry-After": {"schema": {"type": "integer"}, "description": "seconds"}
            }
        operation["responses"][str(status)] = response


def _add_keys(document: dict[str, Any]) -> None:
    """How a key is sent, and to which routes it must be."""
    document["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if (method.upper(), path) not in PUBLIC:
                operation["security"] = [{"key": []}]
