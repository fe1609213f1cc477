"""Standings and leases with defaults."""

from advisor.domain import Status
from advisor.sweeps.measurement_store import Held
from advisor.sweeps.watching.tally import Running, SweepProgress


def running(**changes):
    values = {
        "trial_id": "0123456789abcdef",
        "name": "googlenet inference on emulated:T4, 1 vCPU, 2 GiB, gp3",
        "where": "here",
        "seconds": 12.3,
        "attempt": 1,
    }
    return Running(**{**values, **changes})


def standing(**changes):
    values = {
        "total": 24,
        "skipped": 5,
        "left": 16,
        "counts": {Status.OK: 6, Status.FAILED: 1, Status.CONTAMINATED: 1},
        "running": (running(), running(where="gpu-7", attempt=2, seconds=4000.0)),
        "elapsed_seconds": 130.0,
        "rest_seconds": 259.2,
        "basis": "16.2 s a trial so far",
        "attempts": 11,
        "trial_seconds": 128.5,
        "usd": 0.019,
        "expected_usd": 0.0569,
        "heartbeats": {"ok": 6},
        "last_heartbeat_at": 1795269671.25,
    }
    return SweepProgress(**{**values, **changes})


def held(**changes):
    values = {
        "trial_id": "0123456789abcdef",
        "host": "vm",
        "pid": 12,
        "seconds_left": 100.0,
        "seconds_held": 35.0,
        "label": "googlenet inference on emulated:T4, 1 vCPU, 2 GiB, gp3",
    }
    return Held(**{**values, **changes})
