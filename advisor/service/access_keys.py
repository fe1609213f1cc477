"""Keys of the HTTP service: what they are made of, what they allow, and how one is recognised.

A key is `adv_<id>_<secret>`: the id (12 hexadecimal digits) finds its row, the secret (32 random
bytes, base64url) proves it. The store has the SHA-256 of the whole key, nothing else. A slow hash
(bcrypt, argon2) makes guessable passwords expensive to guess; nobody guesses 256 random bits, and
a slow hash at each request would let anybody keep the service busy with wrong keys.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from enum import StrEnum

from advisor.errors import UsageError, unknown_name
from advisor.store.keys import ApiKeys, NewKey, StoredKey

_KEY = re.compile(r"adv_(?P<id>[0-9a-f]{12})_[A-Za-z0-9_-]{43}")
_ID = re.compile(r"[0-9a-f]{12}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_AGE = re.compile(r"(?P<count>[0-9]{1,6})(?P<unit>[mhdwy])")
_SECONDS_OF = {"m": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0, "y": 365 * 86400.0}
_SESSION_BYTES = 32


class Scope(StrEnum):
    """What a caller may do; each allows what stands before it, too."""

    READ = "read"
    MEASURE = "measure"
    ADMIN = "admin"

    def allows(self, needed: Scope) -> bool:
        """Whether who has this scope may do what needs that one."""
        return _RANK[self] >= _RANK[needed]


_RANK = {scope: rank for rank, scope in enumerate(Scope)}


def add_key(
    book: ApiKeys, name: str, scope: str, *, lifetime_seconds: float | None, now: float
) -> tuple[str, StoredKey]:
    """Make a key and keep its digest. The first value is the key itself, told only here.

    `UsageError` where the name is none, or taken, or the scope is unknown."""
    key_id = secrets.token_hex(6)
    key = f"adv_{key_id}_{secrets.token_urlsafe(32)}"
    new = NewKey(
        key_id=key_id,
        name=_checked_name(name),
        scope=scope_of(scope).value,
        digest=digest_of(key),
        expires_at=None if lifetime_seconds is None else now + lifetime_seconds,
    )
    return key, book.add(new, now=now)


def scope_of(word: str) -> Scope:
    """The scope of that name; `UsageError` offers the nearest."""
    try:
        return Scope(word)
    except ValueError:
        raise unknown_name("scope", word, [scope.value for scope in Scope]) from None


def parse_lifetime_seconds(text: str) -> float:
    """'90d' -> 7776000.0; minutes, hours, days, weeks and years. `UsageError` for anything else."""
    match = _AGE.fullmatch(text.strip().lower())
    if match is None or not int(match["count"]):
        raise UsageError(f"--expires '{text}' is no time to live; write it like 12h, 90d or 1y")
    return int(match["count"]) * _SECONDS_OF[match["unit"]]


def key_id_of(key: str) -> str | None:
    """The id in a key; None for what is none."""
    match = _KEY.fullmatch(key)
    return match["id"] if match else None


def digest_of(secret: str) -> str:
    """SHA-256 in hexadecimal digits."""
    return hashlib.sha256(secret.encode()).hexdigest()


def is_of(stored: StoredKey, key: str) -> bool:
    """Whether it is that very key, told in a time that does not depend on where they differ."""
    return hmac.compare_digest(stored.digest, digest_of(key))


def new_session_token() -> str:
    """What a session's cookie holds: 32 random bytes, base64url."""
    return secrets.token_urlsafe(_SESSION_BYTES)


def _checked_name(name: str) -> str:
    if not _NAME.fullmatch(name) or _ID.fullmatch(name):
        raise UsageError(
            f"a key's name must be up to 64 letters, digits, '.', '_' and '-' (as ci or grafana), "
            f"not beginning with one of the last three, and not look like an id: not '{name}'"
        )
    return name
