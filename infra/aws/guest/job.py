"""The job of an instance (a JSON document in the bucket, without secrets), its process, and its watch."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO

import msgspec
from msgspec import Struct, field
from msgspec.structs import asdict

from advisor.errors import DataError, LiveError
from advisor.infra.aws.asking import Clock
from advisor.infra.aws.guest.metadata import Metadata

POLL_SECONDS = 5.0  # as EC2's guide to interruption notices recommends
GRACE_SECONDS = 30.0
# The process is ended this long before the instance, so that it can exit and send its last rows.
BEFORE_EXPIRY = timedelta(seconds=90)
SYSTEMD = Path("/run/systemd/system")  # exists if systemd has booted the machine
SPOT, EXPIRY = "spot", "expiry"


class Watch(Struct):
    """Polls for a reason to end the work, until `over` is set; `reason` is `spot`, `expiry` or empty."""

    metadata: Metadata
    expires_at: datetime
    clock: Clock
    leave: Callable[[], None]
    reason: str = ""
    over: threading.Event = field(default_factory=threading.Event)

    def run(self, poll_seconds: float = POLL_SECONDS) -> None:
        """Poll until there is a reason; then call `leave` once."""
        while not self.over.is_set():
            self.reason = self._reason()
            if self.reason:
                self.leave()
                return
            self.over.wait(poll_seconds)

    def _reason(self) -> str:
        if self.clock.now() >= self.expires_at - BEFORE_EXPIRY:
            return EXPIRY
        # A metadata service that does not answer is polled again.
        with suppress(LiveError):
            return SPOT if self.metadata.is_taken_back() else ""
        return ""


@contextmanager
def watching(watch: Watch, poll_seconds: float = POLL_SECONDS) -> Iterator[Watch]:
    """Run the watch in a thread during the block."""
    thread = threading.Thread(target=watch.run, args=(poll_seconds,), name="notices", daemon=True)
    thread.start()
    try:
        yield watch
    finally:
        watch.over.set()
        thread.join()


def _own_scope() -> tuple[str, ...]:
    """The words before a command that run it in a delegated cgroup, which it may divide. Root could make
    groups anywhere, but systemd takes controllers back from cgroups that it has not delegated."""
    if os.getuid() != 0 or not SYSTEMD.is_dir():
        return ()
    return ("systemd-run", "--quiet", "--scope", "--property=Delegate=yes")


class Child:
    """A program in a new session, so that its child processes can be ended with it."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self._log: IO[bytes] = log.open("ab")
        self._process = subprocess.Popen(
            [*_own_scope(), *command],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def wait(self, seconds: float) -> int | None:
        """The exit code; None if the program still runs after that time."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def leave(self) -> None:
        """Terminate the program, and kill it if it has not ended after `GRACE_SECONDS`."""
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)
        if self.wait(GRACE_SECONDS) is None:
            self.kill()

    def kill(self) -> None:
        """Kill the program and its child processes."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        """Kill the program if it still runs, and close its log."""
        if self._process.poll() is None:
            self.kill()
        self._log.close()


SCHEMA = "advisor.guest-job/1"
STATES_FOLDER = "guests/"  # under a job's prefix: the reports of instances
COMMANDS = SWEEP_RUN, VERIFY, MEASURE = "sweep run", "verify", "measure"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_DEVICE = re.compile(r"/dev/(sd|xvd)[a-z]{1,2}")
_DISK_TYPE = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
# A pip requirement with name, extras and version; nothing that could be an option or an address.
_REQUIREMENT = re.compile(r"([a-z][a-z0-9-]*(\[[a-z,]+\])?(==[0-9]+(\.[0-9]+)*(\.\*)?)?)?")
_PREFIX = re.compile(r"[A-Za-z0-9._/-]+[A-Za-z0-9._-]")


class Job(Struct, frozen=True, kw_only=True):
    """A sweep, a verification, or the load of a language model, on one instance.

    The instance runs `advisor`, `command`, `arguments`, and options for mounted disks. `disks` maps device
    names of the launch to disk types (`/dev/sdf`: `gp3`); with `local_disk` the local NVMe disk is mounted,
    too. Results go under `prefix` of `bucket` (in `region`), which all instances of one slot share.
    `database_parameter` names the SSM parameter (SecureString) with the URL of a shared database; empty:
    measurements go to the bucket. `engine` is the pip requirement of a serving engine; empty: none."""

    sweep_id: str
    region: str
    bucket: str
    prefix: str
    arguments: tuple[str, ...]
    disks: Mapping[str, str] = field(default_factory=dict)
    database_parameter: str = ""
    command: str = SWEEP_RUN
    local_disk: bool = False
    engine: str = ""

    def __post_init__(self) -> None:
        if self.command not in COMMANDS:
            raise DataError(f"'{self.command[:80]}' is not what an instance does for a sweep")
        if not _NAME.fullmatch(self.sweep_id):
            raise DataError(f"'{self.sweep_id[:80]}' is no sweep id: letters, digits, '.', '_', '-'")
        if not _PREFIX.fullmatch(self.prefix) or ".." in self.prefix:
            raise DataError(f"'{self.prefix[:80]}' is no prefix of a bucket")
        if not _REQUIREMENT.fullmatch(self.engine):
            raise DataError(f"'{self.engine[:80]}' is no package of an engine")
        for device, disk_type in self.disks.items():
            if not (_DEVICE.fullmatch(device) and _DISK_TYPE.fullmatch(disk_type)):
                raise DataError(f"'{device}': '{disk_type}' is no device name with a disk type")

    @property
    def key(self) -> str:
        """The key of this document in the bucket."""
        return f"{self.prefix}/job.json"

    @property
    def url(self) -> str:
        """The document's `s3://` address."""
        return f"s3://{self.bucket}/{self.key}"


def job_to_json(job: Job) -> str:
    """The job's document; equal jobs give equal bytes."""
    return json.dumps({"schema": SCHEMA, **asdict(job)}, indent=1, sort_keys=True)


def job_from_json(text: str) -> Job:
    """The job in a document; `DataError` for an invalid one."""
    try:
        document = json.loads(text)
        if document["schema"] != SCHEMA:
            raise ValueError(f"schema {document['schema']}, not {SCHEMA}")
        return msgspec.convert(document, Job)
    except (ValueError, KeyError, TypeError, msgspec.MsgspecError) as error:
        raise DataError(f"this is no job of an instance: {type(error).__name__}: {error}") from error


def place_of(url: str) -> tuple[str, str]:
    """Bucket and key of `s3://bucket/key`."""
    match = re.fullmatch(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])/(\S+)", url)
    if not match:
        raise DataError(f"'{url}' names no object", hint="write it like s3://bucket/key")
    return match[1], match[2]
