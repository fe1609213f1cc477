"""The application with its gate around it."""

from __future__ import annotations

from pathlib import Path

from advisor.service.guard.gate import Gate
from advisor.service.guard.limits import Limits
from advisor.service.guard.logbook import Logbook
from advisor.service.guard.origins import Hosts
from fastapi import FastAPI

from advisor.runs.store.keys import ApiKeys
from advisor.service.audit import AuditLog
from advisor.service.guard.door import Door
from advisor.service.guard.key_ring import KeyRing
from advisor.service.settings import Settings

# Waiting for a database that is away is of no use to who waits for an answer.
_PATIENCE_SECONDS = 0.5


def add_gate(app: FastAPI, settings: Settings) -> None:
    """Put the gate around what the application has so far. Its parts are `app.state.door`,
    `.limits` and `.logbook`."""
    door = Door(key_ring(settings), is_loopback=settings.is_loopback)
    limits, logbook = Limits(settings), Logbook(audit_log(settings))
    hosts = Hosts(is_loopback=settings.is_loopback, public=settings.public_hosts)
    app.state.door, app.state.limits, app.state.logbook = door, limits, logbook
    app.add_middleware(Gate, door=door, hosts=hosts, limits=limits, logbook=logbook)


def close_door(app: FastAPI) -> None:
    """End what the gate holds, when the service ends."""
    door: Door = app.state.door
    door.ring.close()


def key_ring(settings: Settings) -> KeyRing:
    """The keys of the settings' store."""

    def open_book() -> ApiKeys:
        return ApiKeys(settings.database_url, reading=True, patience_seconds=_PATIENCE_SECONDS)

    return KeyRing(open_book)


def audit_log(settings: Settings) -> AuditLog:
    """The log of the settings."""
    return AuditLog(Path(settings.audit_log) if settings.audit_log else None)
