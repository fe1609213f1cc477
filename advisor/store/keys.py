"""Keys of the HTTP service and the page's sessions, in SQLite or PostgreSQL.

Only digests come here: who reads the database can make no request with what stands in it. What a key is made
of, and what its scope allows, is told by `advisor.service.access_keys`. All times are seconds since 1970.
"""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sql
from msgspec import Struct

from advisor.errors import UsageError, unknown_name
from advisor.messages import Message
from advisor.records import asdict
from advisor.store.records import record_of
from advisor.store.schema import OpenTables, lock_table
from advisor.store.tables import API_KEYS as KEYS
from advisor.store.tables import API_SESSIONS as SESSIONS

MOST_SESSIONS_OF_A_KEY = 20
_NO_PATIENCE = 0.0


class NewKey(Struct, frozen=True, kw_only=True):
    """What is kept of a key that was made: never its secret."""

    key_id: str
    name: str
    scope: str
    digest: str
    expires_at: float | None = None


class StoredKey(NewKey, frozen=True, kw_only=True):
    """A key as it stands in the store."""

    created_at: float
    last_used_at: float | None = None
    revoked_at: float | None = None

    def works(self, now: float) -> bool:
        """Neither revoked nor expired."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


class Session(Struct, frozen=True):
    """A login on the page, known by the digest of its cookie's token."""

    digest: str
    key_id: str
    expires_at: float


class Holders(Struct, frozen=True):
    """Every key by its id, and every session that has not expired by its digest."""

    keys: Mapping[str, StoredKey]
    sessions: Mapping[str, Session]


class ApiKeys(OpenTables):
    """The keys of a database."""

    def add(self, new: NewKey, *, now: float) -> StoredKey:
        """Keep a key; `UsageError` where another one that is not revoked has its name."""

        def work(connection: sql.Connection) -> None:
            lock_table(connection, KEYS)  # two that add the same name at once do so one after the other
            same = (KEYS.c.name == new.name) & KEYS.c.revoked_at.is_(None)
            if connection.execute(sql.select(KEYS.c.key_id).where(same)).first():
                raise UsageError(
                    "there is a key '{name}' already",
                    name=new.name,
                    field="name",
                    hint=Message(
                        "`advisor keys revoke {name}` first, or give this one another name", name=new.name
                    ),
                )
            connection.execute(KEYS.insert().values({**asdict(new), "created_at": now}))

        self._database.write(work)
        return self.named(new.key_id)

    def all(self) -> list[StoredKey]:
        """Every key, revoked ones too, in the order in which they were added."""
        query = sql.select(KEYS).order_by(KEYS.c.number)
        return [record_of(StoredKey, row) for row in self.rows(query)]

    def named(self, name: str) -> StoredKey:
        """The key of that id, else the latest of that name; `UsageError` offers the nearest."""
        keys = self.all()
        matching = [key for key in keys if key.name == name]
        matching += [key for key in keys if key.key_id == name]
        if matching:
            return matching[-1]
        if not keys:
            raise UsageError(
                "no key '{name}': none was added",
                name=name,
                field="name",
                hint="see `advisor keys add --help`",
            )
        raise unknown_name("key", name, {key.name for key in keys}, field="name")

    def revoke(self, name: str, *, now: float) -> StoredKey:
        """End a key, and the sessions that were opened with it; again, it changes nothing."""
        key = self.named(name)

        def work(connection: sql.Connection) -> None:
            here = (KEYS.c.key_id == key.key_id) & KEYS.c.revoked_at.is_(None)
            connection.execute(KEYS.update().where(here).values(revoked_at=now))
            connection.execute(SESSIONS.delete().where(SESSIONS.c.key_id == key.key_id))

        self._database.write(work)
        return self.named(key.key_id)

    def used(self, moments: Mapping[str, float]) -> None:
        """Note when keys (by id) were used last; does not wait for a database that is held."""

        def work(connection: sql.Connection) -> None:
            for key_id, moment in moments.items():
                here = KEYS.c.key_id == key_id
                connection.execute(KEYS.update().where(here).values(last_used_at=moment))

        self._database.write(work, patience_seconds=_NO_PATIENCE)

    def open_session(self, session: Session, *, now: float) -> None:
        """Keep a login; expired ones go, and of one key's the oldest beyond twenty."""

        def work(connection: sql.Connection) -> None:
            connection.execute(SESSIONS.delete().where(SESSIONS.c.expires_at <= now))
            mine = SESSIONS.c.key_id == session.key_id
            query = sql.select(SESSIONS.c.digest).where(mine).order_by(SESSIONS.c.created_at.desc())
            old = connection.execute(query.offset(MOST_SESSIONS_OF_A_KEY - 1)).scalars().all()
            connection.execute(SESSIONS.delete().where(SESSIONS.c.digest.in_(old)))
            connection.execute(SESSIONS.insert().values({**asdict(session), "created_at": now}))

        self._database.write(work)

    def end_session(self, digest: str) -> None:
        """Forget a login; again, it changes nothing."""
        gone = SESSIONS.delete().where(SESSIONS.c.digest == digest)
        self._database.write(lambda connection: connection.execute(gone))

    def holders(self, *, now: float) -> Holders:
        """All keys, and the sessions that are open, of one consistent state."""
        if not self.is_ready:
            return Holders({}, {})

        def work(connection: sql.Connection) -> Holders:
            are_open = sql.select(SESSIONS).where(SESSIONS.c.expires_at > now)
            keys, sessions = sql.select(KEYS), connection.execute(are_open).all()
            return Holders(
                {row.key_id: record_of(StoredKey, row) for row in connection.execute(keys)},
                {row.digest: record_of(Session, row) for row in sessions},
            )

        return self._database.read(work)

    @property
    def is_ready(self) -> bool:
        """Whether the tables are there; who is here for long also notices another file."""
        self._follow_file()
        return super().is_ready
