"""Where measurements are kept: one row a trial, on disk before the next trial starts.

Rules of every store: `append` returns only when the row is durable; a trial that has a row
keeps it unless `replace` is asked for; rows come back in the order in which they were first
written; one process writes, any number read. SQLite by default, PostgreSQL by URL.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import sqlalchemy as sql
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import StaticPool

from advisor.domain import Measurement, Status
from advisor.errors import DataError, UsageError
from sweeps.serialization import (
    SCHEMA_VERSION,
    NewerFormatError,
    measurement_from_dict,
    measurement_to_dict,
)

DATABASE_VARIABLE = "ADVISOR_DATABASE_URL"

_METADATA = sql.MetaData()
_ROWS = sql.Table(
    "measurements",
    _METADATA,
    sql.Column("number", sql.Integer, primary_key=True, autoincrement=True),
    sql.Column("trial_id", sql.String(16), nullable=False, unique=True),
    sql.Column("network", sql.String(64), nullable=False, index=True),
    sql.Column("task", sql.String(16), nullable=False),
    sql.Column("accelerator", sql.String(64), nullable=False, index=True),
    sql.Column("status", sql.String(16), nullable=False, index=True),
    sql.Column("limited_by", sql.String(16), nullable=False),
    sql.Column("started_at", sql.String(40), nullable=False),
    sql.Column("schema_version", sql.Integer, nullable=False),
    sql.Column("payload", sql.Text, nullable=False),
)


@dataclass(frozen=True, slots=True)
class Appended:
    """How many rows were new, and how many took the place of one that had not ended well."""

    added: int
    replaced: int


class MeasurementStore(Protocol):
    """See the rules above."""

    def append(self, measurement: Measurement, *, replace: bool = False) -> bool:
        """Keep it durably; False, and nothing changed, when the trial already has a row."""

    def append_all(self, measurements: Sequence[Measurement]) -> Appended:
        """Keep all of them durably, or none when anything fails.

        A row that did not end `ok` gives way to one that did; every other row stays."""

    def statuses(self) -> dict[str, str]:
        """The status of every trial that has a row, by trial_id."""

    def done_ids(self) -> set[str]:
        """The trials that have a row, however they ended."""

    def all(self) -> list[Measurement]:
        """Every measurement."""


def default_database_url() -> str:
    """`ADVISOR_DATABASE_URL`, else a SQLite file in the user's data folder."""
    from platformdirs import user_data_path

    configured = os.environ.get(DATABASE_VARIABLE)
    if configured:
        return configured
    return f"sqlite:///{user_data_path('instance-sizing-advisor') / 'measurements.sqlite'}"


def open_store(url: str | None = None) -> SqlStore:
    """The store at `url` (default: `default_database_url()`), made if it does not exist."""
    return SqlStore(url or default_database_url())


class SqlStore:
    """Measurements in a SQL database."""

    def __init__(self, url: str) -> None:
        self._engine = _engine(url)
        self._name = self._engine.url.database or "memory"
        with self._translated():
            _METADATA.create_all(self._engine)

    def append(self, measurement: Measurement, *, replace: bool = False) -> bool:
        """See `MeasurementStore`."""
        row = _row(measurement)
        with self._translated(), self._engine.begin() as connection:
            here = _ROWS.c.trial_id == row["trial_id"]
            known = connection.scalar(sql.select(_ROWS.c.number).where(here))
            if known is None:
                connection.execute(_ROWS.insert().values(row))
            elif replace:
                connection.execute(_ROWS.update().where(here).values(row))
            return known is None or replace

    def append_all(self, measurements: Sequence[Measurement]) -> Appended:
        """See `MeasurementStore`."""
        rows = [_row(measurement) for measurement in measurements]
        with self._translated(), self._engine.begin() as connection:
            query = sql.select(_ROWS.c.trial_id, _ROWS.c.status)
            known = {row.trial_id: row.status for row in connection.execute(query)}
            new = [row for row in rows if row["trial_id"] not in known]
            better = [row for row in rows if _is_better(row, known.get(row["trial_id"]))]
            if new:
                connection.execute(_ROWS.insert(), new)
            for row in better:
                here = _ROWS.c.trial_id == row["trial_id"]
                connection.execute(_ROWS.update().where(here).values(row))
        return Appended(added=len(new), replaced=len(better))

    def statuses(self) -> dict[str, str]:
        """See `MeasurementStore`."""
        query = sql.select(_ROWS.c.trial_id, _ROWS.c.status)
        with self._translated(), self._engine.connect() as connection:
            return {row.trial_id: row.status for row in connection.execute(query)}

    def done_ids(self) -> set[str]:
        """See `MeasurementStore`."""
        return set(self.statuses())

    def all(self) -> list[Measurement]:
        """See `MeasurementStore`; `DataError` names a row that cannot be read."""
        query = sql.select(_ROWS.c.trial_id, _ROWS.c.payload).order_by(_ROWS.c.number)
        with self._translated(), self._engine.connect() as connection:
            rows = connection.execute(query).all()
        return [self._measurement(trial_id, payload) for trial_id, payload in rows]

    def close(self) -> None:
        """Give the connections back."""
        self._engine.dispose()

    def _measurement(self, trial_id: str, payload: str) -> Measurement:
        try:
            return measurement_from_dict(json.loads(payload))
        except NewerFormatError:
            raise
        except (ValueError, AttributeError, RecursionError, DataError) as error:
            raise DataError(
                f"measurement {trial_id} in the database '{self._name}' is damaged ({error}); "
                "delete that row, or start a new database"
            ) from error

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as error:
            cause = error.orig if isinstance(error, DBAPIError) else error
            raise DataError(
                f"database '{self._name}': {' '.join(str(cause).split())}; {_way_out(str(cause))}"
            ) from error


def _engine(url: str) -> sql.Engine:
    try:
        parsed = sql.make_url(url)
        if parsed.get_backend_name() != "sqlite":
            return sql.create_engine(parsed, pool_pre_ping=True)
        return _sqlite_engine(parsed)
    except (ArgumentError, NoSuchModuleError, ModuleNotFoundError) as error:
        raise UsageError(
            f"{DATABASE_VARIABLE} is no database URL that can be opened ({error}); write it "
            "like sqlite:////path/to/file.sqlite"
        ) from error


def _sqlite_engine(url: sql.URL) -> sql.Engine:
    if url.database in (None, "", ":memory:"):
        return sql.create_engine(url, poolclass=StaticPool)
    try:
        Path(str(url.database)).parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(
            f"cannot make the folder of the database '{url.database}' ({error.strerror}); set "
            f"{DATABASE_VARIABLE} to a place that can be written"
        ) from error
    engine = sql.create_engine(url, connect_args={"timeout": 30})
    sql.event.listen(engine, "connect", _be_durable)
    return engine


def _be_durable(connection: Any, _record: Any) -> None:
    """A committed row survives a power cut, not only a killed process."""
    connection.execute("PRAGMA synchronous=FULL")


def _row(measurement: Measurement) -> dict[str, Any]:
    trial = measurement.trial
    return {
        "trial_id": trial.trial_id,
        "network": trial.workload.network,
        "task": trial.workload.task.value,
        "accelerator": trial.accelerator,
        "status": measurement.status.value,
        "limited_by": measurement.limited_by.value,
        "started_at": measurement.started_at,
        "schema_version": SCHEMA_VERSION,
        "payload": json.dumps(measurement_to_dict(measurement)),
    }


def _is_better(row: Mapping[str, Any], known_status: str | None) -> bool:
    return known_status not in (None, Status.OK.value) and row["status"] == Status.OK.value


def _way_out(cause: str) -> str:
    if "full" in cause:
        return "free some space and run the same command again, nothing stored is lost"
    if "not a database" in cause or "malformed" in cause:
        return f"move that file away, or set {DATABASE_VARIABLE} to another one"
    return f"set {DATABASE_VARIABLE} to a database that can be opened and written"
