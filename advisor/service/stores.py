"""The store within a request: opened for it, away only for a moment, else 503."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from typing import TypeVar

from advisor.errors import DataError
from advisor.service.problems import Problem
from advisor.service.settings import Settings
from advisor.store.measurements import SqlStore
from advisor.store.schedules import ScheduleBook

# A person waits; whoever comes back later loses nothing, since every write can be repeated.
_PATIENCE_SECONDS = 10.0
Tables = TypeVar("Tables", SqlStore, ScheduleBook)


def stored(settings: Settings, *, reading: bool) -> AbstractContextManager[SqlStore]:
    """The measurements; `Problem` 503 where the database is away, full or another program's."""
    return _opened(SqlStore, settings, reading)


def scheduled(settings: Settings, *, reading: bool) -> AbstractContextManager[ScheduleBook]:
    """The schedules, likewise."""
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
