"""What instances have written into the database that they share with this machine, if it is so.

The URL of theirs is a secret that they alone read (SSM): whether the store of this machine is the
same database is seen by their rows in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

from sweeps.planning.staleness import is_stale

if TYPE_CHECKING:
    from advisor.domain import Measurement
    from infra.aws.launch_options import Machine


class SharedRows:
    """The rows of this machine's store that certain instances have measured."""

    def __init__(self) -> None:
        from sweeps.store import open_store

        self._machines: dict[str, Machine] = {}
        with closing(open_store()) as store:
            self._before = store.summaries()

    def note(self, machine: Machine) -> None:
        """Another instance was launched or adopted."""
        self._machines[machine.id] = machine

    def measured(self) -> int | None:
        """How many they have measured since this began; None where nothing of theirs is there, so
        that nobody can tell: then their database may be another one."""
        theirs = list(self._theirs())
        return sum(map(self._is_new, theirs)) if theirs else None

    def _theirs(self) -> Iterator[Measurement]:
        from sweeps.store import open_store

        with closing(open_store()) as store:
            stored = store.read()
        for row in stored.measurements:
            host = str(row.environment.get("host", "")).partition(".")[0]
            if any(_measured_by(one, host, row.started_at) for one in self._machines.values()):
                yield row

    def _is_new(self, row: Measurement) -> bool:
        known = self._before.get(row.trial.trial_id)
        return known is None or (known.status, known.started_at) != (row.status, row.started_at)


def _measured_by(machine: Machine, host: str, started_at: str) -> bool:
    """EC2 names a host after its private address, or after its id; the time tells it from others
    that had the address before."""
    names = (f"ip-{machine.private_ip.replace('.', '-')}", machine.id)
    return host in names and not is_stale(started_at, machine.launched_at)
