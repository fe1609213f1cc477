"""The version of a database's tables, and their creation.

The version stands in a table of its own name, so that another program's Alembic in the same PostgreSQL
database is not in the way.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import sqlalchemy as sql

from advisor.errors import DataError
from advisor.messages import Message
from advisor.store import DATABASE_VARIABLE, default_database_url
from advisor.store.database import Database
from advisor.store.dialects import POSTGRESQL, SQLITE, is_there, log_ahead, make_folder
from advisor.store.tables import MEASUREMENTS

VERSION_TABLE = "advisor_schema"
HEAD = "0008"
WRITING_PATIENCE_SECONDS, READING_PATIENCE_SECONDS = 90.0, 30.0
_VERSION = sql.table(VERSION_TABLE, sql.column("version_num"))
_MIGRATIONS = Path(__file__).with_name("migrations")
_MIGRATION_LOCK = 0x6164_7669_736F_7231  # "advisor1": no other program's advisory lock


class OpenTables:
    """Tables of the database at `url` (default: `default_database_url()`).

    They are made where there are none. `reading` changes nothing in the database, whatever it holds, and
    finds empty tables where there are none. A database that is away is waited for, for `patience_seconds`.
    """

    def __init__(
        self, url: str | None = None, *, reading: bool = False, patience_seconds: float | None = None
    ) -> None:
        usual = READING_PATIENCE_SECONDS if reading else WRITING_PATIENCE_SECONDS
        patience = usual if patience_seconds is None else patience_seconds
        self._database = Database(url or default_database_url(), patience)
        self._has_tables = False
        try:
            if not reading:
                make_ready(self._database)
            self._file_id = self._database.file_id()
            self._has_tables = not reading or has_tables(self._database)
        except BaseException:
            self.close()
            raise

    @property
    def name(self) -> str:
        """The database's name in messages; never with its password."""
        return self._database.name

    @property
    def is_ready(self) -> bool:
        """Whether there are tables to read."""
        self._has_tables = self._has_tables or has_tables(self._database)
        return self._has_tables

    def rows(self, query: sql.Select[Any]) -> list[Any]:
        """The rows that a query of this room finds; none where there are no tables."""
        if not self.is_ready:
            return []
        return self._database.rows(query)

    def close(self) -> None:
        """Give the connections back."""
        self._database.close()

    def _follow_file(self) -> bool:
        """Whether the database's file was removed or replaced meanwhile: who is here for long goes on with
        the file of that name."""
        file_id = self._database.file_id()
        if file_id == self._file_id:
            return False
        self._database.close()
        self._file_id, self._has_tables = file_id, False
        return True


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


def lock_table(connection: sql.Connection, table: sql.Table) -> None:
    """Nobody else writes into it until this transaction ends; a writing one of SQLite has the whole file."""
    if connection.dialect.name == POSTGRESQL:
        connection.execute(sql.text(f"LOCK TABLE {table.name} IN SHARE ROW EXCLUSIVE MODE"))


def _migrate(connection: sql.Connection, name: str) -> None:
    from alembic import command
    from alembic.config import Config

    if connection.dialect.name == POSTGRESQL:  # a writing transaction of SQLite has the whole file already
        connection.execute(sql.select(sql.func.pg_advisory_xact_lock(_MIGRATION_LOCK)))
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
            if version != HEAD:
                raise _other_version(str(version), name)
            return HEAD
    others = tables - {VERSION_TABLE}
    if others and (connection.dialect.name == SQLITE or MEASUREMENTS.name in others):
        raise DataError(
            "database '{name}' is another program's (it has the tables: {some})",
            hint=Message(
                "nothing was changed, set {database_variable} to a file of its own",
                database_variable=DATABASE_VARIABLE,
            ),
            name=name,
            some=", ".join(sorted(others)[:3]),
        )
    return None


def _other_version(version: str, name: str) -> DataError:
    if version < HEAD:
        return DataError(
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
    return DataError(
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
