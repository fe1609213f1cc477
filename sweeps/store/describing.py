"""What a database is and holds, told without changing it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any

import sqlalchemy as sql

from sweeps.store.database import Database
from sweeps.store.dialects import DatabaseSeconds
from sweeps.store.leases import Leases
from sweeps.store.schema import HEAD, Found, look
from sweeps.store.tables import LEASES, MEASUREMENTS


def describe(url: str, *, patience_seconds: float) -> Mapping[str, Any]:
    """Name, program and version, tables (`nothing`, `older` or `head`), rows, the database's
    clock in seconds since 1970, leases in force (`held`) and those that nobody has any more.

    Raises `DataError` or `UsageError` where it cannot be reached or is not ours.
    """
    with closing(Database(url, patience_seconds)) as database:
        found = look(database)
        told: dict[str, Any] = {
            "name": database.name, "tables": found.value, "newest_version": HEAD,
            "rows": 0, "held": [], "left_leases": 0,
        }  # fmt: skip
        if found is Found.NOTHING and database.file is not None:
            return told | {"program": _program(database), "now": None}
        told["now"] = database.read(lambda one: one.scalar(sql.select(DatabaseSeconds())))
        told["program"] = _program(database)
        if found is not Found.NOTHING:
            count = sql.select(sql.func.count()).select_from(MEASUREMENTS)
            told["rows"] = database.read(lambda one: one.scalar(count))
        if found is Found.HEAD:
            held = Leases(database).held()
            count = sql.select(sql.func.count()).select_from(LEASES)
            told["held"] = sorted({one.driver for one in held.values()})
            told["left_leases"] = (database.read(lambda one: one.scalar(count)) or 0) - len(held)
        return told


def _program(database: Database) -> str:
    dialect = database.engine.dialect
    version = getattr(dialect, "server_version_info", None)
    if version is None:
        import sqlite3

        return f"SQLite {sqlite3.sqlite_version}"
    number = ".".join(map(str, version))
    return f"SQLite {number}" if dialect.name == "sqlite" else f"PostgreSQL {number}"
