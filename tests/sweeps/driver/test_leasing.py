"""Leases are renewed as long as their driver runs, whatever goes wrong meanwhile."""

import threading

from advisor.sweeps.driver.claims import leasing
from advisor.sweeps.events import collected


class Troubled:
    """Fails in another way at each beat, and works at last."""

    def __init__(self, *troubles):
        self._troubles, self.renewed, self.given_back = list(troubles), threading.Event(), []

    def renew(self, owner):
        if self._troubles:
            raise self._troubles.pop(0)
        self.renewed.set()

    def give_back(self, owner, trial_ids=None):
        self.given_back.append(owner)


def test_no_trouble_of_any_kind_ends_the_heartbeat():
    leases = Troubled(OSError("no file descriptor"), RuntimeError("a defect"))
    with collected() as told, leasing(leases, heartbeat_seconds=0.01) as owner:
        assert leases.renewed.wait(timeout=30)
    assert leases.given_back == [owner]
    assert [one["facts"]["reason"] for one in told if one["event"] == "heartbeat_failed"] == [
        "no file descriptor",
        "a defect",
    ]
