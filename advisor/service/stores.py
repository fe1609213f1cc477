"""The store within a request: opened for it, away only for a moment, else 503."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from advisor.errors import DataError
from advisor.service.problems import Problem
from advisor.service.settings import Settings
from advisor.store import default_database_url
from advisor.store.measurements import SqlStore
from advisor.store.schedules import ScheduleBook

# A person waits; whoever comes back later loses nothing, since every write can be repeated.
_PATIENCE_SECONDS = 10.0


@contextmanager
def stored(settings: Settings, *, reading: bool) -> Iterator[SqlStore]:
    """The measurements; `Problem` 503 where the database is away, full or another program's."""
    url = settings.database_url or default_database_url()
    with _translated():
        opened = SqlStore(url, reading=reading, patience_seconds=_PATIENCE_SECONDS)
    with closing(opened) as store, _translated():
        yield store


@contextmanager
def scheduled(settings: Settings, *, reading: bool) -> Iterator[ScheduleBook]:
    """The schedules, likewise."""
    with _translated():
        opened = ScheduleBook(settings.database_url, reading=reading, patience_seconds=_PATIENCE_SECONDS)
    with closing(opened) as book, _translated():
        yield book


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except DataError as error:
        raise Problem(
            503,
            "store-unavailable",
            error.message,
            hint="come back in a moment",
            headers={"Retry-After": "5"},
        ) from error
