"""Times from the launch of instances to their first trial, and the least life that follows from them.

Each start is an object of the bucket, `software/starts/TYPE/INSTANCE-ID`: what is there expires
with the software that was installed (90 days in the stack `account`).
"""

from __future__ import annotations

from datetime import timedelta

from advisor.infra.aws.asking import Aws
from advisor.infra.aws.budget import BILLING_MINUTE
from advisor.infra.aws.errors import Refused
from advisor.infra.aws.guest.job import BEFORE_EXPIRY
from advisor.infra.aws.guest.metadata import ResultBucket
from advisor.infra.aws.launch_options import LEAST, LaunchedMachine
from advisor.infra.aws.tags import time_from
from advisor.runs.cloud.exchange import GuestState
from advisor.sweeps.planning.plan import GPU_SECONDS

_FOLDER = "software/starts"
# The slowest of so many counts: the network and PyPI differ from start to start.
_MOST_STARTS = 20
# After the start: a trial with its warm-up; the guest leaves before its end and sends the rest.
_AFTER_START = timedelta(seconds=2 * GPU_SECONDS) + BEFORE_EXPIRY + BILLING_MINUTE


class Starts:
    """The starts that a bucket in `region` knows of."""

    def __init__(self, aws: Aws, region: str, bucket: str) -> None:
        self._objects = ResultBucket(aws, region, bucket, _FOLDER)

    def note(self, machine: LaunchedMachine, measuring: GuestState) -> None:
        """Keep when an instance began to measure; `AdvisorError` where the bucket refuses."""
        began = time_from(measuring.at)
        if began is not None and began > machine.launched_at:
            seconds = (began - machine.launched_at).total_seconds()
            self._objects.put(f"{machine.instance_type}/{machine.id}", f"{seconds:.0f}".encode())

    def least_life(self, instance_type: str) -> timedelta:
        """The least life of an instance that measures anything: its type's slowest start, and a trial;
        `LEAST` where none is known, or none may be read."""
        try:
            keys = list(self._objects.keys(f"{instance_type}/"))[-_MOST_STARTS:]
            starts = [float(self._objects.get(key) or b"nan") for key in keys]
        except (Refused, ValueError):
            return LEAST
        known = [seconds for seconds in starts if seconds > 0]
        return timedelta(seconds=max(known)) + _AFTER_START if known else LEAST
