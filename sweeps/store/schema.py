"""Which version a database's tables have, and making them.

The version stands in a table of its own name, so that another program's Alembic in the same
PostgreSQL database is not in the way.
"""

from __future__ import annotations

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
from advisor.sweeps.store.tables import MEASUREMENTS

VERSION_TABLE = "advisor_schema"
HEAD = "0008"
_VERSION = sql.table(VERSION_TABLE, sql.column("version_num"))
_MIGRATIONS = Path(__file__).with_name("migrations")


def has_tables(database: Database) -> bool:
    """Whether the database has this version's tables; nothing is written, and no file made.

    `DataError` where it is another program's, or of another version of this one.
    """
    if database.file is not None and not is_there(database.file):
        return False
    return database.read(lambda connection: _version(connection, database.name)) == HEAD


def make_ready(database: Database) -> None:
    """Make the tables where there are none; one driver at a time does it."""
    if database.file is not None:
        make_folder(database.file)
    ready = has_tables(database)  # another program's file is refused before anything is changed
    log_ahead(database.engine)
    if not ready:
        database.write(lambda connection: _migrate(connection, database.name))


def _migrate(connection: sql.Connection, name: str) -> None:
    from alembic import command
    from alembic.config import Config

    lock_migrations(connection)
    if _version(connection, name) == HEAD:
        return  # another driver was faster
    config = Config(attributes={"connection": connection, "version_table": VERSION_TABLE})
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    command.upgrade(config, "head")


def _version(connection: sql.Connection, name: str) -> str | None:
    """The version of the tables; None where there are none of ours."""
    tables = set(sql.inspect(connection).get_table_names())
    if VERSION_TABLE in tables:
        version = connection.scalar(sql.select(_VERSION.c.version_num))
        if version is not None:
            return _checked_version(str(version), name)
    others = tables - {VERSION_TABLE}
    if others and (connection.dialect.name == SQLITE or MEASUREMENTS.name in others):
        raise _foreign(name, others)
    return None


def _checked_version(version: str, name: str) -> str:
    if version == HEAD:
        return version
    if version < HEAD:
        raise DataError(
            "database '{name}' was written by an earlier version of the advisor (its tables are "
            "version {version}, this one knows {head})",
            hint=Message(
                "export its measurements with that version, set {database_variable} to another "
                "database, and import them there",
                database_variable=DATABASE_VARIABLE,
            ),
            name=name,
            version=version,
            head=HEAD,
        )
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
