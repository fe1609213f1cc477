"""`advisor keys`: who may ask the HTTP service, and what."""

from __future__ import annotations

import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from advisor.cli.printing import print_answer, tell
from advisor.cli.questions import Name, Text, output_option
from advisor.render.text import table

if TYPE_CHECKING:
    from advisor.store.keys import StoredKey

LIST = "advisor.keys/1"
_COLUMNS = ("id", "name", "scope", "state", "created", "expires", "last used")
_audit_option = click.option(
    "--audit-log",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Audit log.  [default: audit.jsonl in the user data directory]",
)


@click.group()
def keys() -> None:
    """Keys of `advisor serve`. The store is ADVISOR_DATABASE_URL; it has only their digests.

    \b
    advisor keys add grafana --scope read --expires 90d
    advisor keys revoke grafana
    """


@keys.command()
@click.argument("name")
@click.option(
    "--scope",
    type=Name("scope", ("read", "measure", "admin")),
    required=True,
    help="read: ask; measure: also import, sweep and schedule; admin: also AWS.",
)
@click.option(
    "--expires",
    type=Text("--expires"),
    metavar="TIME",
    help="Lifetime: 12h, 90d or 1y.  [default: unlimited]",
)
@_audit_option
def add(name: str, scope: str, expires: str | None, audit_log: Path | None) -> None:
    """Create a key and print it once; it cannot be shown again.

    From the first key on every request needs one, on this machine too.
    """
    from advisor.service.audit import AuditLog
    from advisor.store.keys import ApiKeys, parse_lifetime_seconds

    lifetime = parse_lifetime_seconds(expires) if expires else None
    log = AuditLog(audit_log)
    log.check()
    with closing(ApiKeys()) as book:
        first = not book.all()
        key, kept = book.add(name, scope, lifetime_seconds=lifetime, now=time.time())
        log.write("key-added", key=kept.key_id, name=kept.name, scope=kept.scope)
    click.echo(key)
    until = f" until {_iso(kept.expires_at)}" if kept.expires_at else ""
    locked = " From now on every request needs a key." if first else ""
    tell(
        f"Key '{kept.name}' ({kept.key_id}, scope {kept.scope}){until}. Keep it: it is not shown "
        f"again. Send it as 'Authorization: Bearer adv_..'.{locked}"
    )


@keys.command("list")
@output_option
def list_(output: str) -> None:
    """List keys, revoked ones too, without their secrets."""
    from advisor.store.keys import ApiKeys

    with closing(ApiKeys(reading=True)) as book:
        keys_there, database = book.all(), book.name
    now = time.time()
    described = [_document(key, now) for key in keys_there]
    document = {"schema": LIST, "at": _iso(now), "database": database, "keys": described}
    rows = [_row(key, now) for key in keys_there]
    none = "No keys yet: `advisor serve` answers on this machine only; see `advisor keys add -h`."
    print_answer(output, document, lambda: table(_COLUMNS, rows) if rows else none)


@keys.command()
@click.argument("name", metavar="NAME|ID")
@_audit_option
def revoke(name: str, audit_log: Path | None) -> None:
    """Revoke a key by name or id, and the logins made with it.

    Running services refuse it within two seconds.
    """
    from advisor.service.audit import AuditLog
    from advisor.store.keys import ApiKeys

    log, now = AuditLog(audit_log), time.time()
    log.check()
    with closing(ApiKeys()) as book:
        gone = book.revoke(name, now=now)
        if gone.revoked_at == now:
            log.write("key-revoked", key=gone.key_id, name=gone.name, scope=gone.scope)
    again = "" if gone.revoked_at == now else f" already, on {_iso(gone.revoked_at)}"
    click.echo(f"Revoked key '{gone.name}' ({gone.key_id}){again}.")


def _state(key: StoredKey, now: float) -> str:
    if key.revoked_at is not None:
        return "revoked"
    return "works" if key.works(now) else "expired"


def _document(key: StoredKey, now: float) -> dict[str, Any]:
    return {
        "id": key.key_id,
        "name": key.name,
        "scope": key.scope,
        "state": _state(key, now),
        "created_at": _iso(key.created_at),
        "expires_at": _iso(key.expires_at),
        "last_used_at": _iso(key.last_used_at),
        "revoked_at": _iso(key.revoked_at),
    }


def _row(key: StoredKey, now: float) -> tuple[str, ...]:
    moments = map(_iso, (key.created_at, key.expires_at, key.last_used_at))
    days = (moment[:10] if moment else "never" for moment in moments)
    return (key.key_id, key.name, key.scope, _state(key, now), *days)


def _iso(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
