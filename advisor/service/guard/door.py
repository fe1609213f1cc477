"""Who asks: told by a key, by a session's cookie, or by being on this machine while there are no
keys."""

from __future__ import annotations

import time
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie

from advisor.service.guard.head import Head

from advisor.runs.store.keys import Holders, Session, StoredKey
from advisor.service.access import LOCAL, Caller
from advisor.service.access_keys import Scope, digest_of, is_of, key_id_of
from advisor.service.guard.key_ring import KeyRing

COOKIE = "advisor_session"
_BEARER = "bearer "
_NO_KEY = "this needs a key"
_UNKNOWN = "this key is not known"


@dataclass(frozen=True, slots=True)
class Seen:
    """Who it is; without a caller, why not. `tried` where something was shown that is no key."""

    caller: Caller | None
    reason: str = _NO_KEY
    tried: bool = False


class Door:
    """Recognises callers by the keys of the store."""

    def __init__(self, ring: KeyRing, *, is_loopback: bool) -> None:
        self.ring = ring
        self._is_loopback = is_loopback

    async def who(self, head: Head) -> Seen:
        """Who sent these headers. `StoreAway` where that cannot be known."""
        if head.authorization:
            return await self.by_key(_bearer(head.authorization))
        if token := _session_token(head.cookie):
            return await self._by_session(token)
        return await self._by_place()

    async def by_key(self, key: str) -> Seen:
        """Whose key that is."""
        key_id = key_id_of(key)
        if key_id is None:
            return Seen(None, "this is no key of this service", tried=True)
        stored = (await self.ring.holders()).keys.get(key_id)
        if stored is None:
            stored = (await self.ring.holders(since=time.monotonic())).keys.get(key_id)
        if stored is None or not is_of(stored, key):
            return Seen(None, _UNKNOWN, tried=True)
        return self._holder(stored, "key")

    async def _by_session(self, token: str) -> Seen:
        digest = digest_of(token)
        holders = await self.ring.holders()
        if digest not in holders.sessions:
            holders = await self.ring.holders(since=time.monotonic())
        session = holders.sessions.get(digest)
        stored = _key_of(holders, session)
        if stored is None:
            seen = await self._by_place()
            return seen if seen.caller else Seen(None, "this login has ended", tried=True)
        return self._holder(stored, "session")

    async def _by_place(self) -> Seen:
        await self.ring.holders()
        if self._is_loopback and not self.ring.had_keys:
            return Seen(LOCAL)
        return Seen(None)

    def _holder(self, stored: StoredKey, by: str) -> Seen:
        now = time.time()
        if not stored.works(now):
            ended = "was revoked" if stored.revoked_at is not None else "has expired"
            return Seen(None, f"this key {ended}", tried=True)
        self.ring.note_use(stored, now)
        return Seen(Caller(by, Scope(stored.scope), stored.key_id, stored.name))


def _key_of(holders: Holders, session: Session | None) -> StoredKey | None:
    if session is None or session.expires_at <= time.time():
        return None
    return holders.keys.get(session.key_id)


def _bearer(authorization: str) -> str:
    """The key of 'Bearer adv_..'; '' for another scheme."""
    if authorization[: len(_BEARER)].lower() != _BEARER:
        return ""
    return authorization[len(_BEARER) :].strip()


def _session_token(cookies: str) -> str:
    if COOKIE not in cookies:
        return ""
    try:
        found = SimpleCookie(cookies).get(COOKIE)
    except CookieError:
        return ""
    return found.value if found else ""
