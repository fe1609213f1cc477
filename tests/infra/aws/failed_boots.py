"""Instances whose start fails by chance, what each leaves, and what of it a user can read."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

from moto.s3.models import s3_backends

from advisor.errors import AdvisorError
from advisor.runs.cloud.logs import logs_of_sweep
from advisor.runs.cloud.starts import Starts
from advisor.runs.cloud.sweep import BucketWork
from infra.aws.guest.job import STATES_FOLDER
from infra.aws.guest.result_bucket import ResultBucket
from infra.aws.watching import Outcome
from tests.infra.aws.bed import Bed, end
from tests.infra.aws.builders import Minutes
from tests.infra.aws.ec2_ways import ACCOUNT

_BUCKET, _REGION = "results", "us-east-1"
_SHARE, _NO_WAY_TO_S3_SHARE = 0.3, 0.2
_REASON = "the start of {id} failed: no space left on device"


class FailedBoots:
    """Of the instances of one sweep. Drawn from a seed of their own: what else happens to a launch
    is the same without them."""

    def __init__(self, bed: Bed, sweep_id: str, seed: int) -> None:
        self._bed, self._sweep_id = bed, sweep_id
        self._chance = random.Random(f"boots of {seed}")
        self.with_log: list[str] = []
        self.without_way: list[str] = []
        bed.ways.console = "the console of a start that failed"
        _s3().create_bucket(_BUCKET, _REGION)

    def work(self, minutes: float, seed: int) -> Minutes:
        """What a controller does for its instances: it keeps what those leave that say nothing."""
        aws = self._bed.aws(seed).less_patient(8.0)
        mailbox = ResultBucket(aws, _REGION, _BUCKET, f"sweeps/{self._sweep_id}/g4dn.xlarge")
        starts = Starts(aws, _REGION, _BUCKET)
        return _Keeping(self._bed, minutes, BucketWork(aws, mailbox, starts, lambda _: None))

    def plan(self, instance: Any) -> None:
        """By chance, have its start fail within minutes; then it sends its log, if it can, and
        powers off."""
        if self._chance.random() >= _SHARE:
            return
        has_way = self._chance.random() >= _NO_WAY_TO_S3_SHARE
        moment = self._bed.clock.now() + timedelta(minutes=self._chance.uniform(0.5, 5.0))

        def fail() -> None:
            if instance.state != "running":
                return
            (self.with_log if has_way else self.without_way).append(instance.id)
            if has_way:
                key = f"sweeps/{self._sweep_id}/g4dn.xlarge/{STATES_FOLDER}{instance.id}.boot.log"
                _s3().put_object(_BUCKET, key, _REASON.format(id=instance.id).encode())
            end(instance, "Client.InstanceInitiatedShutdown")

        self._bed.clock.at(moment, fail)

    def unread(self) -> list[str]:
        """Instances of which `advisor cloud log` shows nothing."""
        instances = self.with_log + self.without_way
        if not instances:
            return []
        try:
            logs = logs_of_sweep(self._bed.aws(), _BUCKET, self._sweep_id)
        except AdvisorError:
            return instances
        return [one for one in instances if not any(one in log.key and log.text for log in logs)]


class _Keeping(Minutes):
    def __init__(self, bed: Bed, minutes: float, work: BucketWork) -> None:
        super().__init__(bed.clock, minutes)
        self._work = work

    def on_end(self, outcome: Outcome) -> None:
        self._work.on_end(outcome)


def _s3() -> Any:
    return s3_backends[ACCOUNT]["aws"]
