"""A description of a database, read without changing it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any

import sqlalchemy as sql

from advisor.store.database import Database
from advisor.store.dialects import DatabaseSeconds
from advisor.store.leases import Leases
from advisor.store.schema import HEAD, has_tables
from advisor.store.tables import LEASES, MEASUREMENTS


def describe(url: str, *, patience_seconds: float) -> Mapping[str, Any]:
    """Name, program and version, tables (`nothing` or `head`), rows, the database's clock in seconds since
    1970, leases in force (`held`) and those that nobody has any more.

    Raises `DataError` or `UsageError` where it cannot be reached or is not ours.
    """
    with closing(Database(url, patience_seconds)) as database:
        ready = has_tables(database)
        answer: dict[str, Any] = {
            "name": database.name,
            "tables": "head" if ready else "nothing",
            "newest_version": HEAD,
            "rows": 0,
            "held": [],
            "left_leases": 0,
        }
        if not ready and database.file is not None:
            return answer | {"program": _program(database), "now": None}
        answer["now"] = database.read(lambda connection: connection.scalar(sql.select(DatabaseSeconds())))
        answer["program"] = _program(database)
        if ready:
            count = sql.select(sql.func.count()).select_from(MEASUREMENTS)
            answer["rows"] = database.read(lambda connection: connection.scalar(count))
            held = Leases(database).held()
            count = sql.select(sql.func.count()).select_from(LEASES)
            answer["held"] = sorted({entry.driver for entry in held.values()})
            answer["left_leases"] = (database.read(lambda connection: connection.scalar(count)) or 0) - len(
                held
            )
        return answer


def _program(database: Database) -> str:
    dialect = database.engine.dialect
    version = getattr(dialect, "server_version_info", None)
    if version is None:
        import sqlite3

        return f"SQLite {sqlite3.sqlite_version}"
    number = ".".join(map(str, version))
    return f"SQLite {number}" if dialect.name == "sqlite" else f"PostgreSQL {number}"
