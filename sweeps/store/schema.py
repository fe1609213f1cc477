"""Which version a database's tables have, and bringing them to today's.

The version stands in a table of its own name, so that another program's Alembic in the same
PostgreSQL database is not in the way.
"""

from __future__ import annotations

from enum import Enum
from pathlib import Path

import sqlalchemy as sql

from advisor.errors import DataError
from advisor.messages import Message
from advisor.sweeps.store.database import Database
from advisor.sweeps.store.dialects import (
    DATABASE_VARIABLE,
    SQLITE,
    is_there,
    lock_migrations,
    log_ahead,
    make_folder,
)

VERSION_TABLE = "advisor_schema"
VERSIONS = ("0001", "0002", "0003", "0004", "0005", "0006", "0007", "0008")
HEAD = VERSIONS[-1]
_UNVERSIONED = VERSIONS[0]
_VERSION = sql.table(VERSION_TABLE, sql.column("version_num"))
_MIGRATIONS = Path(__file__).with_name("migrations")


class SchemaState(Enum):
    """What there is before anything was done."""

    NOTHING = "nothing"
    OLDER = "older"
    HEAD = "head"


def look(database: Database) -> SchemaState:
    """What the database holds; nothing is written, and no SQLite file made.

    `DataError` where it is another program's, or of a later version of this one.
    """
    if database.file is not None and not is_there(database.file):
        return SchemaState.NOTHING
    version = database.read(lambda connection: _version(connection, database.name))
    return (
        SchemaState.NOTHING
        if version is None
        else SchemaState.HEAD
        if version == HEAD
        else SchemaState.OLDER
    )


def make_ready(database: Database) -> None:
    """Make the tables, or bring older ones to today's version; one driver at a time does it."""
    if database.file is not None:
        make_folder(database.file)
    result = look(database)  # another program's file is refused here, before anything is changed
    log_ahead(database.engine)
    if result is not SchemaState.HEAD:
        database.write(lambda connection: _migrate(connection, database.name))


def _migrate(connection: sql.Connection, name: str) -> None:
    from alembic import command
    from alembic.config import Config

    lock_migrations(connection)
    version = _version(connection, name)  # another driver may have been faster
    if version == HEAD:
        return
    config = Config(attributes={"connection": connection, "version_table": VERSION_TABLE})
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    if version == _UNVERSIONED and not sql.inspect(connection).has_table(VERSION_TABLE):
        command.stamp(config, _UNVERSIONED)
    command.upgrade(config, "head")


def _version(connection: sql.Connection, name: str) -> str | None:
    """The version of the tables; None where there are none of ours."""
    inspector = sql.inspect(connection)
    tables = set(inspector.get_table_names())
    if VERSION_TABLE in tables:
        version = connection.scalar(sql.select(_VERSION.c.version_num))
        if version is not None:
            return _checked_version(str(version), name)
    if MEASUREMENTS.name in tables:
        columns = {column["name"] for column in inspector.get_columns(MEASUREMENTS.name)}
        if not columns >= set(MEASUREMENTS.c.keys()):
            raise _foreign(name, {MEASUREMENTS.name})
        return _UNVERSIONED
    others = tables - {VERSION_TABLE}
    if others and connection.dialect.name == SQLITE:
        raise _foreign(name, others)
    return None


def _checked_version(version: str, name: str) -> str:
    if version not in VERSIONS:
        raise DataError(
            "database '{name}' was written by a later version of the advisor (its tables "
            "are version {version}, this one knows {head})",
            hint=Message(
                "upgrade the advisor, or set {database_variable} to another database",
                database_variable=DATABASE_VARIABLE,
            ),
            name=name,
            version=version,
            head=HEAD,
        )
    return version


def _foreign(name: str, tables: set[str]) -> DataError:
    some = ", ".join(sorted(tables)[:3])
    return DataError(
        "database '{name}' is another program's (it has the tables: {some})",
        hint=Message(
            "nothing was changed, set {database_variable} to a file of its own",
            database_variable=DATABASE_VARIABLE,
        ),
        name=name,
        some=some,
    )


METADATA = sql.MetaData()

MEASUREMENTS = sql.Table(
    "measurements",
    METADATA,
    sql.Column("number", sql.Integer, primary_key=True, autoincrement=True),
    sql.Column("trial_id", sql.String(16), nullable=False, unique=True),
    # An own network's name is its file's path: of any length.
    sql.Column("network", sql.Text, nullable=False, index=True),
    sql.Column("task", sql.String(16), nullable=False),
    sql.Column("accelerator", sql.Text, nullable=False, index=True),
    sql.Column("status", sql.String(16), nullable=False, index=True),
    sql.Column("limited_by", sql.String(16), nullable=False),
    sql.Column("started_at", sql.String(40), nullable=False),
    sql.Column("schema_version", sql.Integer, nullable=False),
    sql.Column("payload", sql.Text, nullable=False),
)

LEASES = sql.Table(
    "leases",
    METADATA,
    sql.Column("trial_id", sql.String(16), primary_key=True),
    sql.Column("owner", sql.String(150), nullable=False, index=True),
    sql.Column("host", sql.String(255), nullable=False),
    sql.Column("place", sql.String(100), nullable=False),
    sql.Column("pid", sql.Integer, nullable=False),
    sql.Column("started", sql.String(32), nullable=False),
    # Seconds since 1970 by the clock of the database, in a double.
    sql.Column("expires_at", sql.Double, nullable=False),
    # When the trial began, by the same clock; what it is called. For those who watch.
    sql.Column("taken_at", sql.Double, nullable=True),
    sql.Column("label", sql.Text, nullable=True),
)

# What a sweep replaced by a newer measurement of the same trial: what a drift is seen by.
EARLIER = sql.Table(
    "earlier_measurements",
    METADATA,
    sql.Column("number", sql.Integer, primary_key=True, autoincrement=True),
    sql.Column("trial_id", sql.String(16), nullable=False, index=True),
    sql.Column("started_at", sql.String(40), nullable=False),
    sql.Column("payload", sql.Text, nullable=False),
)
