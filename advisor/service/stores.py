"""Opens the store for one request; an unavailable store becomes a 503 problem."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from typing import TypeVar

from advisor.errors import DataError
from advisor.service.problems import Problem
from advisor.service.settings import Settings
from advisor.store.measurements import SqlStore
from advisor.store.schedules import ScheduleBook

# Short, since a person waits. A refused client can simply retry, because every write may be repeated.
_PATIENCE_SECONDS = 10.0
Tables = TypeVar("Tables", SqlStore, ScheduleBook)


@contextmanager
def _opened(kind: type[Tables], settings: Settings, *, reading: bool) -> Iterator[Tables]:
    """The open tables. Raises `Problem` 503 if the database cannot be opened or used."""
    try:
        tables = kind(settings.database_url, reading=reading, patience_seconds=_PATIENCE_SECONDS)
        with closing(tables):
            yield tables
    except DataError as error:
        hint = "come back in a moment"
        raise Problem(503, "store-unavailable", error.message, hint=hint, retry=5) from error


# The stores of measurements, and of schedules and runs.
stored, scheduled = partial(_opened, SqlStore), partial(_opened, ScheduleBook)
