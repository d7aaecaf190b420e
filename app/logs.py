"""Logs: one JSON object a line on standard error, with the request's id."""

import json
import logging
import sys
from contextvars import ContextVar
from datetime import UTC, datetime

REQUEST_ID: ContextVar[str] = ContextVar("request_id", default="-")

# Attributes that every log record has; anything else was passed as `extra`.
_PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message"}


class JsonFormatter(logging.Formatter):
    """A record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, tz=UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "request_id": REQUEST_ID.get(),
        }
        entry.update({key: value for key, value in vars(record).items() if key not in _PLAIN})
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str)


def configure_logs(level: str) -> None:
    """Send every logger to standard error as JSON from `level` up."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "alembic"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
    # Requests are logged once, by the middleware; migrations only when something is wrong.
    logging.getLogger("uvicorn.access").disabled = True
    logging.getLogger("alembic").setLevel("WARNING")
    # They log addresses, and that of a webhook is a secret.
    for name in ("httpx", "httpcore"):
        logging.getLogger(name).setLevel("WARNING")
