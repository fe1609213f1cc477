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
from advisor.sweeps.measurement_store import Held


def describe(url: str, *, patience_seconds: float) -> Mapping[str, Any]:
    """Name, program and version, tables (`nothing` or `head`), rows, the database's clock in seconds since
    1970, leases in force (`held`) and those that nobody has any more.

    Raises `DataError` or `UsageError` where it cannot be reached or is not ours.
    """
    with closing(Database(url, patience_seconds)) as database:
        ready = has_tables(database)
        now, rows, leases, held = None, 0, 0, dict[str, Held]()
        if ready or database.file is None:
            now = database.rows(sql.select(DatabaseSeconds()))[0][0]
        if ready:
            counts = [sql.select(sql.func.count()).select_from(table) for table in (MEASUREMENTS, LEASES)]
            (rows,), (leases,) = (database.rows(count)[0] for count in counts)
            held = Leases(database).held()
        return {
            "name": database.name,
            "tables": "head" if ready else "nothing",
            "newest_version": HEAD,
            "rows": rows,
            "held": sorted({entry.driver for entry in held.values()}),
            "left_leases": leases - len(held),
            "program": _program(database),
            "now": now,
        }


def _program(database: Database) -> str:
    dialect = database.engine.dialect
    version = getattr(dialect, "server_version_info", None)
    if version is None:
        import sqlite3

        return f"SQLite {sqlite3.sqlite_version}"
    number = ".".join(map(str, version))
    return f"SQLite {number}" if dialect.name == "sqlite" else f"PostgreSQL {number}"
