"""Work on a database in whole transactions, waited for while the database is held or away."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar

import sqlalchemy as sql
from sqlalchemy.exc import SQLAlchemyError

from advisor.errors import DataError
from sweeps.store.dialects import WRITES, make_engine, name_of, parsed_url, sqlite_file
from sweeps.store.trouble import Trouble, trouble_of

WRITING_PATIENCE_SECONDS = 90.0
READING_PATIENCE_SECONDS = 30.0
_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 2.0
_LOG = logging.getLogger(__name__)

Outcome = TypeVar("Outcome")
Work = Callable[[sql.Connection], Outcome]


class Database:
    """A SQLite or PostgreSQL database.

    Work that a passing trouble interrupts (a lock, a restart, a lost connection) is done again
    from its beginning for up to `patience_seconds`, and told about once on the log's stderr;
    any other trouble is a `DataError` that names the way out.
    """

    def __init__(self, url: str, patience_seconds: float) -> None:
        parsed = parsed_url(url)
        self.name = name_of(parsed)
        self.file = sqlite_file(parsed)
        self.engine = make_engine(parsed)
        self.in_memory = self.engine.dialect.name == "sqlite" and self.file is None
        self._patience_seconds = patience_seconds
        # The one connection of a database in memory serves all threads, one at a time.
        self._turn: AbstractContextManager[object] = (
            threading.RLock() if self.in_memory else nullcontext()
        )

    def write(self, work: Work[Outcome], *, patience_seconds: float | None = None) -> Outcome:
        """Do the work in a transaction that may write; everything of it is kept, or nothing."""
        return self._patiently(lambda: self._transact(work, writes=True), patience_seconds)

    def read(self, work: Work[Outcome]) -> Outcome:
        """Do the work on one consistent state."""
        return self._patiently(lambda: self._transact(work, writes=False), None)

    def file_id(self) -> tuple[int, int] | None:
        """Which file lies there now (device, inode); None without one, and where it is a server."""
        try:
            result = self.file.stat() if self.file else None
        except OSError:
            return None
        return (result.st_dev, result.st_ino) if result else None

    def close(self) -> None:
        """Give the connections back."""
        self.engine.dispose()

    def _transact(self, work: Work[Outcome], *, writes: bool) -> Outcome:
        with self._turn, self.engine.connect() as bare:
            connection = bare.execution_options(**{WRITES: writes})
            with connection.begin():
                return work(connection)

    def _patiently(self, attempt: Callable[[], Outcome], seconds: float | None) -> Outcome:
        patience = self._patience_seconds if seconds is None else seconds
        begun, pause, reported = time.monotonic(), _FIRST_PAUSE_SECONDS, False
        while True:
            try:
                outcome = attempt()
            except SQLAlchemyError as error:
                trouble = trouble_of(error)
                left = begun + patience - time.monotonic()
                if not trouble.passes or left <= 0:
                    raise self._error(trouble) from error
            else:
                if reported:
                    _LOG.warning("database '%s' is back", self.name)
                return outcome
            if not reported:
                reported = True
                self._log_waiting(trouble, left)
            time.sleep(min(pause, left))
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def _log_waiting(self, trouble: Trouble, left: float) -> None:
        _LOG.warning("database '%s': %s; waiting up to %.0f s", self.name, trouble.what, left)

    def _error(self, trouble: Trouble) -> DataError:
        return DataError(
            "database '{name}': {what}", hint=trouble.way_out, name=self.name, what=trouble.what
        )
