"""What the service refuses or cannot do, as one tree, and how each is told to the client.

AppError(code, status)
├── NotFound            404  no such stored thing
├── Conflict            409  contradicts what is stored
├── PayloadTooLarge     413  the body is longer than allowed
├── TooManyJobs         429  in app.jobs.errors
└── ServiceUnavailable  503  the database, or a free turn, is missing for now

The advisor's own tree (advisor.errors) is answered with 422 at the field. Anything else is a bug:
500 with a request id, logged with its traceback.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from sqlalchemy.exc import DBAPIError, DisconnectionError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.exceptions import HTTPException

from advisor.errors import AdvisorError, UnknownName, UnsupportedModel
from app.logs import REQUEST_ID

MAX_SHOWN = 300
RETRY_AFTER_S = "5"
_logger = logging.getLogger(__name__)


class AppError(Exception):
    """A failure with a code for programs, a status and a detail for people."""

    code = "error"
    status = 500

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class NotFound(AppError):
    """Nothing is stored under this name."""

    code = "not_found"
    status = 404


class Conflict(AppError):
    """What was sent contradicts what is stored."""

    code = "conflict"
    status = 409


class PayloadTooLarge(AppError):
    """The body is longer than the service reads."""

    code = "payload_too_large"
    status = 413


class ServiceUnavailable(AppError):
    """Something that the service needs is missing for now; trying again may help."""

    code = "service_unavailable"
    status = 503


ADVISOR_CODES: dict[type[AdvisorError], str] = {
    UnknownName: "unknown_name",
    UnsupportedModel: "unsupported_model",
}
HTTP_CODES = {
    400: "bad_request",
    404: "not_found",
    405: "method_not_allowed",
    413: "payload_too_large",
}
# Too many jobs, or not available for now.
_COME_AGAIN = (429, 503)
INVALID = "invalid_field"
# Of fields whose text has a form of its own.
EXAMPLES = {
    "region": "us-west-2",
    "price_usd": '"4800.00", as the offering shows it',
    "offering_id": "tpo-0123456789abcdef0, from POST /plans/search",
    "recommendation_id": "the id of an answer: 24 of 0-9 and a-f",
    "training_plan_arn": "arn:aws:sagemaker:REGION:ACCOUNT:training-plan/NAME",
    "role_arn": "arn:aws:iam::ACCOUNT:role/NAME",
    "output_s3_uri": "s3://BUCKET/PREFIX",
    "checkpoint_s3_uri": "s3://BUCKET/PREFIX",
    "subnets": "subnet-0123456789abcdef0",
    "security_group_ids": "sg-0123456789abcdef0",
    "calibration_version": "a version that an answer stated: 12 of 0-9 and a-f",
}
_OBJECT = "must be a JSON object, sent with Content-Type: application/json"
# pydantic's kinds of errors in our words, those with a limit by its name.
_LIMITS = {
    "less_than_equal": ("le", "must be at most {0}"),
    "less_than": ("lt", "must be less than {0}"),
    "greater_than_equal": ("ge", "must be at least {0}"),
    "greater_than": ("gt", "must be greater than {0}"),
    "too_long": ("max_length", "must have at most {0} entries"),
    "string_too_long": ("max_length", "must have at most {0} characters"),
}
_PLAIN = {
    "missing": "is required",
    "extra_forbidden": "is not a known field",
    "model_attributes_type": _OBJECT,
    "dict_type": _OBJECT,
    "model_type": _OBJECT,
    "string_too_short": "must not be empty",
    "too_short": "must not be empty",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "string_type": "must be a text",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
}
BUG = "internal_error"
# PostgreSQL's code when the tables are gone: the database was made anew.
UNDEFINED_TABLE = "42P01"
DATABASE_DOWN = (
    "the database cannot be reached; nothing was written. Check SHARDWISE_DATABASE_URL and that "
    "the database runs, then try again"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldError:
    """One wrong field: its dotted path in the request, and what to do about it."""

    field: str
    detail: str


def field_errors(errors: Sequence[Any]) -> list[FieldError]:
    """pydantic's errors with dotted fields and plain details; what was sent is never repeated."""
    return [
        # Of broken JSON the location is a place in the text, which the detail has too.
        FieldError(
            field="body" if error["type"] == "json_invalid" else _dotted(error["loc"]),
            detail=_detail(error),
        )
        for error in errors
    ]


def is_database_trouble(error: BaseException) -> bool:
    """Whether an error means that the database is away, broken or without its tables."""
    if isinstance(error, DBAPIError):
        return (
            error.connection_invalidated
            or type(error).__name__ in ("OperationalError", "InterfaceError", "DatabaseError")
            or getattr(error.orig, "sqlstate", None) == UNDEFINED_TABLE
        )
    return isinstance(error, PoolTimeout | DisconnectionError)


def error_body(code: str, detail: str, errors: Sequence[FieldError] = ()) -> dict[str, object]:
    """The JSON body of every error."""
    body: dict[str, object] = {"error": code, "detail": shortened(detail)}
    if errors:
        body["field"] = errors[0].field
    if len(errors) > 1:
        body["errors"] = [{"field": each.field, "detail": each.detail} for each in errors[:20]]
    body["request_id"] = REQUEST_ID.get()
    return body


def wants_html(request: Request) -> bool:
    """Whether the client names text/html before JSON (a browser does)."""
    accept = request.headers.get("accept", "").lower()
    html, plain = accept.find("text/html"), accept.find("application/json")
    return html >= 0 and (plain < 0 or html < plain)


def shortened(text: str, limit: int = 2000) -> str:
    """Text of at most `limit` characters that can be sent whatever it holds."""
    cut = text if len(text) <= limit else text[: limit - 1] + "…"
    return cut.encode("utf-8", "replace").decode("utf-8")


def install_handlers(app: FastAPI) -> None:
    """Answer every kind of error in the one shape."""
    app.add_exception_handler(AppError, _on_app_error)
    app.add_exception_handler(AdvisorError, _on_advisor_error)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(HTTPException, _on_http_error)
    for kind in (DBAPIError, PoolTimeout, DisconnectionError):
        app.add_exception_handler(kind, _on_database_error)


def render_error(
    request: Request, status: int, code: str, detail: str, errors: Sequence[FieldError] = ()
) -> Response:
    """An error as JSON, or as a page for a browser."""
    body = error_body(code, detail, errors)
    headers = {"Retry-After": RETRY_AFTER_S} if status in _COME_AGAIN else None
    if wants_html(request):
        context = {"status": status, **body}
        page: Response = request.app.state.templates.TemplateResponse(
            request, "error.html", context, status_code=status, headers=headers
        )
        return page
    return JSONResponse(body, status_code=status, headers=headers)


def advisor_code(error: AdvisorError) -> str:
    """The code of an advisor's error."""
    return ADVISOR_CODES.get(type(error), INVALID)


def _on_app_error(request: Request, error: Exception) -> Response:
    if not isinstance(error, AppError):
        raise error
    return render_error(request, error.status, error.code, error.detail)


def _on_advisor_error(request: Request, error: Exception) -> Response:
    if not isinstance(error, AdvisorError):
        raise error
    wrong = FieldError(field=shortened(error.field, MAX_SHOWN), detail=error.detail)
    return render_error(request, 422, advisor_code(error), error.detail, [wrong])


def _on_invalid(request: Request, error: Exception) -> Response:
    if not isinstance(error, RequestValidationError):
        raise error
    wrong = field_errors(error.errors())
    return render_error(request, 422, INVALID, wrong[0].detail, wrong)


def _on_http_error(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    code = HTTP_CODES.get(error.status_code, "http_error")
    response = render_error(request, error.status_code, code, str(error.detail))
    response.headers.update(error.headers or {})
    return response


def _on_database_error(request: Request, error: Exception) -> Response:
    if not is_database_trouble(error):
        raise error
    _logger.error("database failed", extra={"reason": shortened(str(error), MAX_SHOWN)})
    request.app.state.database.forget_preparation()
    return render_error(request, 503, ServiceUnavailable.code, DATABASE_DOWN)


def _dotted(location: Sequence[object]) -> str:
    parts = [str(part) for part in location if part not in ("body", "query", "path")]
    return shortened(".".join(parts), MAX_SHOWN) or "body"


def _detail(error: Any) -> str:
    kind = error["type"]
    if kind == "string_pattern_mismatch":
        # Patterns are for machines; people see what such a value looks like.
        example = EXAMPLES.get(next((p for p in reversed(error["loc"]) if p in EXAMPLES), ""))
        if example is not None:
            return f"must look like {example}"
    if kind == "json_invalid":
        return shortened(str(error.get("ctx", {}).get("error", "is not JSON")), MAX_SHOWN)
    if kind in _PLAIN:
        return _PLAIN[kind]
    if kind in _LIMITS:
        name, words = _LIMITS[kind]
        return words.format(f"{error['ctx'][name]:,}")
    message = str(error["msg"]).removeprefix("Value error, ")
    return shortened(message.replace("Input should be", "must be", 1), MAX_SHOWN)
