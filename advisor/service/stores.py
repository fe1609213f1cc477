"""Opens the store for one request; an unavailable store becomes a 503 problem."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from typing import TypeVar

from advisor.errors import DataError
from advisor.service.problems import Problem
from advisor.service.settings import Settings
from advisor.store.measurements import SqlStore
from advisor.store.schedules import ScheduleBook

# Short, since a person waits. A refused client can simply retry, because every write may be repeated.
_PATIENCE_SECONDS = 10.0
Tables = TypeVar("Tables", SqlStore, ScheduleBook)


def stored(settings: Settings, *, reading: bool) -> AbstractContextManager[SqlStore]:
    """The store of measurements. Raises `Problem` 503 if the database cannot be opened or used."""
    return _opened(SqlStore, settings, reading)


def scheduled(settings: Settings, *, reading: bool) -> AbstractContextManager[ScheduleBook]:
    """The store of schedules and runs. Raises `Problem` 503 as `stored` does."""
    return _opened(ScheduleBook, settings, reading)


@contextmanager
def _opened(kind: type[Tables], settings: Settings, reading: bool) -> Iterator[Tables]:
    try:
        tables = kind(settings.database_url, reading=reading, patience_seconds=_PATIENCE_SECONDS)
        with closing(tables):
            yield tables
    except DataError as error:
        hint = "come back in a moment"
        raise Problem(503, "store-unavailable", error.message, hint=hint, retry=5) from error
