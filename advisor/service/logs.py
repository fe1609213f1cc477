"""The service's log: one JSON object a line on stderr, whoever writes it."""

from __future__ import annotations

import logging
import os
from datetime import UTC, datetime
from typing import Any

import orjson

_STDERR = 2


def log_line(event: str, **facts: Any) -> None:
    """One line, written at once: the workers share the stream, and none waits for another."""
    at = datetime.now(UTC).isoformat(timespec="milliseconds")
    line = orjson.dumps({"at": at, "event": event, **facts}, default=str)
    os.write(_STDERR, line + b"\n")


class Lines(logging.Handler):
    """What libraries tell, in the same lines."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write it; a record that cannot be written ends nobody's request."""
        try:
            more = {}
            if record.exc_info:
                more["trace"] = logging.Formatter().formatException(record.exc_info).splitlines()
            log_line(
                "log", level=record.levelname.lower(), by=record.name, text=record.getMessage(),
                **more,
            )  # fmt: skip
        except (OSError, ValueError, TypeError):
            self.handleError(record)


def logging_settings(level: str) -> dict[str, Any]:
    """For `logging.config.dictConfig`, in each worker: uvicorn tells warnings, unless more is
    asked for."""
    chosen = "DEBUG" if level == "debug" else "WARNING" if level != "error" else "ERROR"
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "handlers": {"lines": {"class": "advisor.service.logs.Lines"}},
        "root": {"handlers": ["lines"], "level": chosen},
    }
