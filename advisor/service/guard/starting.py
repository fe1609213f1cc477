"""What must hold before the service listens at all."""

from __future__ import annotations

import time
from contextlib import closing

from advisor.errors import UsageError
from advisor.runs.store.keys import ApiKeys
from advisor.service.guard.install import audit_log
from advisor.service.settings import Settings

_WAY_OUT = "make one: advisor keys add NAME --scope read"


def check_may_listen(settings: Settings) -> None:
    """`UsageError` where strangers could ask without a key: at another address than loopback, or
    under a public name, while no key works. `DataError` where the audit log cannot be written, or
    the store not be read."""
    audit_log(settings).check()
    if settings.is_loopback and not settings.public_hosts:
        return
    if _has_working_key(settings):
        return
    if not settings.is_loopback:
        raise UsageError(
            f"--host {settings.host}: without keys the service listens on this machine only; "
            f"{_WAY_OUT}, or leave --host out"
        )
    raise UsageError(f"--public-host needs keys: others will ask under that name; {_WAY_OUT}")


def _has_working_key(settings: Settings) -> bool:
    with closing(ApiKeys(settings.database_url, reading=True)) as book:
        return any(one.works(time.time()) for one in book.all())
