"""Keys of the HTTP service and login sessions of its page: their form, their rights, and their storage.

A key is `adv_<id>_<secret>`: the id (12 hexadecimal digits) finds its row, the secret (32 random bytes,
base64url) proves it. The store keeps only the SHA-256 of the whole key, so nobody who reads the database can
make a request. A slow hash (bcrypt, argon2) makes guessable passwords expensive to guess; nobody guesses 256
random bits, and a slow hash at each request would let anybody keep the service busy with wrong keys. All
times are seconds since 1970."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from enum import StrEnum

import sqlalchemy as sql
from msgspec import Struct

from advisor.errors import UsageError, unknown_name
from advisor.records import asdict
from advisor.store.records import record_of
from advisor.store.schema import API_KEYS as KEYS
from advisor.store.schema import API_SESSIONS as SESSIONS
from advisor.store.schema import OpenTables, lock_table

MOST_SESSIONS_OF_A_KEY = 20
_NO_PATIENCE = 0.0
_KEY = re.compile(r"adv_(?P<id>[0-9a-f]{12})_[A-Za-z0-9_-]{43}")
_ID = re.compile(r"[0-9a-f]{12}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_LIFETIME = re.compile(r"(?P<count>[0-9]{1,6})(?P<unit>[mhdwy])")
_SECONDS_OF = {"m": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0, "y": 365 * 86400.0}


class Scope(StrEnum):
    """The rights of a caller; each includes the ones before it."""

    READ = "read"
    MEASURE = "measure"
    ADMIN = "admin"

    def allows(self, needed: Scope) -> bool:
        """True if a caller with this scope may do what needs scope `needed`."""
        ranked = list(Scope)
        return ranked.index(self) >= ranked.index(needed)


class StoredKey(Struct, frozen=True, kw_only=True):
    """A key as the store keeps it, without its secret."""

    key_id: str
    name: str
    scope: str
    digest: str
    created_at: float
    expires_at: float | None = None
    last_used_at: float | None = None
    revoked_at: float | None = None

    def works(self, now: float) -> bool:
        """True if the key is valid at `now`: neither revoked nor expired."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)

    def is_made_of(self, key: str) -> bool:
        """True if this row was stored for `key`; compared in constant time, against timing attacks."""
        return hmac.compare_digest(self.digest, digest_of(key))


class Session(Struct, frozen=True):
    """A login on the page, identified by the digest of the token in its cookie."""

    digest: str
    key_id: str
    expires_at: float


class Holders(Struct, frozen=True):
    """All keys by id, and all unexpired sessions by digest."""

    keys: Mapping[str, StoredKey]
    sessions: Mapping[str, Session]


class ApiKeys(OpenTables):
    """The keys of a database."""

    def add(
        self, name: str, scope: str, *, lifetime_seconds: float | None, now: float
    ) -> tuple[str, StoredKey]:
        """Make a key, store its digest, and return the key itself (which only this call knows) and its row.
        `UsageError` for a bad name, one that an unrevoked key has, or an unknown scope."""
        if not _NAME.fullmatch(name) or _ID.fullmatch(name):
            raise UsageError(
                f"a key's name must be up to 64 letters, digits, '.', '_' and '-' (as ci or grafana), "
                f"not beginning with one of the last three, and not look like an id: not '{name}'"
            )
        key_id = secrets.token_hex(6)
        key = f"adv_{key_id}_{secrets.token_urlsafe(32)}"
        new = StoredKey(
            key_id=key_id,
            name=name,
            scope=scope_of(scope).value,
            digest=digest_of(key),
            created_at=now,
            expires_at=None if lifetime_seconds is None else now + lifetime_seconds,
        )

        def work(connection: sql.Connection) -> None:
            lock_table(connection, KEYS)  # serialises two processes that add the same name
            same = (KEYS.c.name == name) & KEYS.c.revoked_at.is_(None)
            if connection.execute(sql.select(KEYS.c.key_id).where(same)).first():
                raise UsageError(
                    f"there is a key '{name}' already",
                    field="name",
                    hint=f"`advisor keys revoke {name}` first, or give this one another name",
                )
            connection.execute(KEYS.insert().values(asdict(new)))

        self.write(work)
        return key, new

    def all(self) -> list[StoredKey]:
        """All keys, including revoked ones, in the order in which they were added."""
        return [record_of(StoredKey, row) for row in self.rows(sql.select(KEYS).order_by(KEYS.c.number))]

    def named(self, name: str) -> StoredKey:
        """The key with that id, else the latest with that name; `UsageError` suggests the nearest name."""
        keys = self.all()
        matching = [key for key in keys if key.name == name]
        matching += [key for key in keys if key.key_id == name]
        if matching:
            return matching[-1]
        if not keys:
            hint = "see `advisor keys add --help`"
            raise UsageError(f"no key '{name}': none was added", field="name", hint=hint)
        raise unknown_name("key", name, {key.name for key in keys}, field="name")

    def revoke(self, name: str, *, now: float) -> StoredKey:
        """Revoke a key and end the sessions opened with it; a second call changes nothing."""
        key = self.named(name)

        def work(connection: sql.Connection) -> None:
            here = (KEYS.c.key_id == key.key_id) & KEYS.c.revoked_at.is_(None)
            connection.execute(KEYS.update().where(here).values(revoked_at=now))
            connection.execute(SESSIONS.delete().where(SESSIONS.c.key_id == key.key_id))

        self.write(work)
        return self.named(key.key_id)

    def used(self, key_id: str, moment: float) -> None:
        """Store when a key was last used; does not wait for a locked database."""
        used = KEYS.update().where(KEYS.c.key_id == key_id).values(last_used_at=moment)
        self.execute(used, patience_seconds=_NO_PATIENCE)

    def open_session(self, session: Session, *, now: float) -> None:
        """Store a login, and delete expired ones and this key's oldest beyond `MOST_SESSIONS_OF_A_KEY`."""

        def work(connection: sql.Connection) -> None:
            connection.execute(SESSIONS.delete().where(SESSIONS.c.expires_at <= now))
            mine = SESSIONS.c.key_id == session.key_id
            query = sql.select(SESSIONS.c.digest).where(mine).order_by(SESSIONS.c.created_at.desc())
            old = connection.execute(query.offset(MOST_SESSIONS_OF_A_KEY - 1)).scalars().all()
            connection.execute(SESSIONS.delete().where(SESSIONS.c.digest.in_(old)))
            connection.execute(SESSIONS.insert().values({**asdict(session), "created_at": now}))

        self.write(work)

    def end_session(self, digest: str) -> None:
        """Delete a login; a second call changes nothing."""
        self.execute(SESSIONS.delete().where(SESSIONS.c.digest == digest))

    def holders(self, *, now: float) -> Holders:
        """All keys and all open sessions, read in one transaction."""
        if not self.is_ready:
            return Holders({}, {})

        def work(connection: sql.Connection) -> Holders:
            sessions = connection.execute(sql.select(SESSIONS).where(SESSIONS.c.expires_at > now)).all()
            return Holders(
                {row.key_id: record_of(StoredKey, row) for row in connection.execute(sql.select(KEYS))},
                {row.digest: record_of(Session, row) for row in sessions},
            )

        return self.view(work)

    @property
    def is_ready(self) -> bool:
        """True if the tables exist; a long-lived reader also notices a replaced database file."""
        self._follow_file()
        return super().is_ready


def scope_of(word: str) -> Scope:
    """The scope of that name; `UsageError` suggests the nearest."""
    try:
        return Scope(word)
    except ValueError:
        raise unknown_name("scope", word, [scope.value for scope in Scope]) from None


def parse_lifetime_seconds(text: str) -> float:
    """'90d' -> 7776000.0; minutes, hours, days, weeks and years. `UsageError` for anything else."""
    match = _LIFETIME.fullmatch(text.strip().lower())
    if match is None or not int(match["count"]):
        raise UsageError(f"--expires '{text}' is no time to live; write it like 12h, 90d or 1y")
    return int(match["count"]) * _SECONDS_OF[match["unit"]]


def key_id_of(key: str) -> str | None:
    """The id in a key; None for a text that is not a key."""
    match = _KEY.fullmatch(key)
    return match["id"] if match else None


def digest_of(secret: str) -> str:
    """SHA-256 in hexadecimal digits."""
    return hashlib.sha256(secret.encode()).hexdigest()
