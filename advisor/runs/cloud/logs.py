"""Logs that the instances of a sweep leave: of their work, their start, their console."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from advisor.errors import CloudError, DataError
from advisor.infra.aws.asking import Aws
from advisor.infra.aws.guest.job import STATES_FOLDER
from advisor.infra.aws.guest.metadata import ResultBucket
from advisor.infra.aws.launch_options import LaunchedMachine, checked_sweep_id
from advisor.infra.aws.machines import console_output, instances_of
from advisor.infra.aws.managed import enabled_regions
from advisor.infra.aws.preflight import bucket as looked_at

# Of an instance: what failed before the advisor ran there (`boot_log.py` sends it), and what EC2
# kept of its console. The log of its work has no word before `.log`.
BOOT, CONSOLE = ".boot", ".console"
_LOG = ".log"


class InstanceLog(Struct, frozen=True, kw_only=True):
    """One log of one instance; `key` is its name in the bucket."""

    key: str
    text: str

    @property
    def last_line(self) -> str:
        """The last line that is not empty; empty where there is none."""
        return next((line for line in reversed(self.text.splitlines()) if line.strip()), "")


def logs_of_silent(aws: Aws, machine: LaunchedMachine, result_bucket: ResultBucket) -> list[InstanceLog]:
    """Logs of an instance that ended without a report, the one that says most first; its console
    goes into the bucket, since EC2 forgets it within an hour.

    Raises `AdvisorError` where EC2 or the bucket refuses.
    """
    boot = _log(result_bucket, f"{STATES_FOLDER}{machine.id}{BOOT}{_LOG}")
    logs = [boot] if boot else []
    if text := console_output(aws, machine):
        key = f"{STATES_FOLDER}{machine.id}{CONSOLE}{_LOG}"
        result_bucket.put(key, text.encode())
        logs.append(InstanceLog(key=key, text=text))
    return logs


def logs_of_sweep(aws: Aws, bucket: str, sweep_id: str) -> list[InstanceLog]:
    """Every log that instances of the sweep left in the bucket, by instance, then the console of
    each that left none there (nobody was there to keep it); `DataError` where there is none."""
    prefix = f"sweeps/{checked_sweep_id(sweep_id)}"
    home, finding = looked_at(aws, "us-east-1", bucket)
    if not finding.ok:
        raise DataError("{reason}", reason=finding.text, hint=finding.mend)
    logs = list(_logs(ResultBucket(aws, home, bucket, prefix)))
    logs += _consoles(aws, home, sweep_id, logs)
    if not logs:
        raise DataError(
            "no instance of {sweep_id} has left a log in {bucket}",
            sweep_id=sweep_id,
            bucket=bucket,
            hint="an instance writes one when it ends; `advisor cloud status` lists those that run",
        )
    return logs


def _consoles(aws: Aws, home: str, sweep_id: str, known: list[InstanceLog]) -> Iterator[InstanceLog]:
    """Consoles of ended instances that the bucket knows nothing of, as long as EC2 lists them."""
    try:
        for machine in instances_of(aws, enabled_regions(aws, home), sweep_id):
            silent = not machine.lives and not any(machine.id in log.key for log in known)
            if silent and (text := console_output(aws, machine)):
                yield InstanceLog(key=f"{machine.slot}/{machine.id}{CONSOLE}{_LOG}", text=text)
    except CloudError:
        return  # who may read the bucket and nothing else reads that


def _logs(result_bucket: ResultBucket) -> Iterator[InstanceLog]:
    for key in result_bucket.keys():  # noqa: SIM118 - a bucket is no mapping
        # Measurements, which may be tens of thousands, are not read.
        if f"/{STATES_FOLDER}" in key and key.endswith(_LOG) and (log := _log(result_bucket, key)):
            yield log


def _log(result_bucket: ResultBucket, key: str) -> InstanceLog | None:
    content = result_bucket.get(key)
    return InstanceLog(key=key, text=content.decode(errors="replace")) if content else None
