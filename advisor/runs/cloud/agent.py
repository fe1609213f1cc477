"""The work of a rented instance: mounts disks, runs the command in a child process, sends measurements.

The shell script that calls this has set timers before, and ends the instance however this ends."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from datetime import datetime
from pathlib import Path

from msgspec import Struct

from advisor.catalog.disk_orders import LOCAL
from advisor.errors import AdvisorError, DataError
from advisor.infra.aws.asking import Aws
from advisor.infra.aws.guest.job import (
    MEASURE,
    SWEEP_RUN,
    VERIFY,
    Child,
    Job,
    Watch,
    job_from_json,
    place_of,
    watching,
)
from advisor.infra.aws.guest.metadata import Metadata, ResultBucket
from advisor.infra.aws.guest.volumes import (
    engine_environment,
    installed_engine,
    mount_local_disk,
    mount_volumes,
    volume_ids,
)
from advisor.runs.cloud.exchange import Collector, End, Phase, Sender, StateLog, object_of, object_of_anchor
from advisor.store.measurements import open_store

POLL_SECONDS = 2.0
# Exit codes of a command that did its work; one is 3, a missed target.
_DONE_CODES = {SWEEP_RUN: (0,), VERIFY: (0, 3), MEASURE: (0,)}
_ANCHOR_FILE = "anchor.json"
# Mounts a job's disks; returns the mount point of each disk type.
Mount = Callable[["Job"], Mapping[str, Path]]
# Installs an engine's package beneath a folder; returns the folder of its programs.
Install = Callable[[str, Path], Path]


class Guest(Struct, frozen=True, kw_only=True):
    """The instance's services and programs, which tests replace; `folder` is the working folder."""

    aws: Aws
    metadata: Metadata
    folder: Path
    mount: Mount
    advisor: tuple[str, ...] = (sys.executable, "-m", "advisor")
    install: Install = installed_engine
    poll_seconds: float = POLL_SECONDS


def this_instance(folder: Path) -> Guest:
    """The instance on which this process runs."""
    aws, metadata = Aws(), Metadata()

    def mount(job: Job) -> dict[str, Path]:
        ids = volume_ids(aws, metadata.region(), metadata.instance_id()) if job.disks else {}
        own = {LOCAL: mount_local_disk()} if job.local_disk else {}
        return own | mount_volumes(job.disks, ids, sleep=aws.clock.sleep)

    return Guest(aws=aws, metadata=metadata, folder=folder, mount=mount)


def run_job(url: str, region: str, expires_at: datetime, guest: Guest) -> End:
    """Do the job in `s3://bucket/key` (a bucket in `region`) until its end, a spot interruption, or shortly
    before `expires_at`. `AdvisorError`, which is also reported in the bucket, if it cannot begin."""
    bucket, key = place_of(url)
    content = ResultBucket(guest.aws, region, bucket, "").get(key)
    if content is None:
        raise DataError(f"there is no job at {url}", hint="was it removed?")
    job = job_from_json(content.decode(errors="replace"))
    result_bucket = ResultBucket(guest.aws, job.region, job.bucket, job.prefix)
    state_log = StateLog(result_bucket, guest.metadata.instance_id(), guest.aws.clock)
    state_log.note(Phase.STARTED)
    try:
        mounts = guest.mount(job)
        state_log.note(Phase.MOUNTED)
        return _work_end(job, mounts, expires_at, guest, result_bucket, state_log)
    except AdvisorError as error:
        state_log.note(Phase.ENDED, End.FAILED, said=str(error))
        raise


def _work_end(
    job: Job,
    mounts: Mapping[str, Path],
    expires_at: datetime,
    guest: Guest,
    result_bucket: ResultBucket,
    state_log: StateLog,
) -> End:
    database, log = f"sqlite:///{guest.folder / 'measurements.sqlite'}", guest.folder / "sweep.log"
    if name := job.database_parameter:
        answer = guest.aws.ask(job.region, "get_parameter", service="ssm", Name=name, WithDecryption=True)
        database = str(answer["Parameter"]["Value"])
    sender = _sender(job, guest, result_bucket, database)
    environment = {**os.environ, "ADVISOR_DATABASE_URL": database, **own_data(job, mounts)}
    command = command_of(guest.advisor, job, mounts)
    if job.command == MEASURE:
        environment |= engine_environment(guest.install(job.engine, guest.folder), guest.aws, job.region)
        # `--out` goes before the job's arguments, which end with the engine's after `--`.
        command = (*guest.advisor, MEASURE, f"--out={guest.folder / _ANCHOR_FILE}", *job.arguments)
        state_log.note(Phase.INSTALLED)
    state_log.note(Phase.SWEEPING)
    with closing(Child(command, environment, log)) as child:
        watch = Watch(guest.metadata, expires_at, guest.aws.clock, child.leave)
        with watching(watch, guest.poll_seconds):
            while (code := child.wait(guest.poll_seconds)) is None:
                if sender:
                    sender.send()
        end = End.DONE if code in _DONE_CODES[job.command] else End(watch.reason or End.FAILED)
    if sender:
        sender.send_the_rest(guest.aws.clock.sleep)
    state_log.note(Phase.ENDED, end, code, state_log.keep_log(log))
    return end


def command_of(advisor: tuple[str, ...], job: Job, mounts: Mapping[str, Path]) -> tuple[str, ...]:
    """The job's command line; for a sweep with the mount points of its disks."""
    places = mounts.items() if job.command == SWEEP_RUN else ()
    paths = [f"--disk-path={disk_type}={path}" for disk_type, path in places]
    return (*advisor, *job.command.split(), *job.arguments, *paths)


def own_data(job: Job, mounts: Mapping[str, Path]) -> dict[str, str]:
    """Environment variables that put generated data and weights on the disk that a job verifies."""
    if job.command == SWEEP_RUN or not mounts:
        return {}
    return {"XDG_CACHE_HOME": str(next(iter(mounts.values())))}


def _sender(job: Job, guest: Guest, result_bucket: ResultBucket, database: str) -> Sender | None:
    """The sender of the job's measurements; None with a shared database. The instance's database is first
    filled from the bucket, so that it continues where an interrupted instance stopped."""
    if job.command == MEASURE:
        anchor = guest.folder / _ANCHOR_FILE
        return Sender(result_bucket, anchor, lambda: [object_of_anchor(anchor.read_bytes())])
    if job.database_parameter:
        return None
    with closing(open_store(database)) as store:
        Collector(result_bucket).collect(store)

    def rows() -> Iterable[tuple[str, bytes]]:
        with closing(open_store(database, reading=True)) as store:
            return map(object_of, store.read().measurements)

    return Sender(result_bucket, Path(database.removeprefix("sqlite:///")), rows)
