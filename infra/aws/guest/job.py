"""The job of an instance, a JSON document in the bucket without a secret; the watch over it."""

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

POLL_SECONDS = 5.0  # EC2's guide to interruption notices advises this at least
GRACE_SECONDS = 30.0
# Before the timer that ends the instance: enough to leave, and to send what is left.
BEFORE_EXPIRY = timedelta(seconds=90)
SYSTEMD = Path("/run/systemd/system")  # there while it is what started the machine
SPOT, EXPIRY = "spot", "expiry"


class Watch(Struct):
    """Looks for a reason to leave until it is `over`; `reason` is `spot`, `expiry` or empty."""

    metadata: Metadata
    expires_at: datetime
    clock: Clock
    leave: Callable[[], None]
    reason: str = ""
    over: threading.Event = field(default_factory=threading.Event)

    def run(self, poll_seconds: float = POLL_SECONDS) -> None:
        """Until there is a reason, which is acted on once."""
        while not self.over.is_set():
            self.reason = self._reason()
            if self.reason:
                self.leave()
                return
            self.over.wait(poll_seconds)

    def _reason(self) -> str:
        if self.clock.now() >= self.expires_at - BEFORE_EXPIRY:
            return EXPIRY
        # A service that does not answer for a moment says nothing; it is asked again.
        with suppress(LiveError):
            return SPOT if self.metadata.is_taken_back() else ""
        return ""


@contextmanager
def watching(watch: Watch, poll_seconds: float = POLL_SECONDS) -> Iterator[Watch]:
    """The watch runs in a thread as long as the block does."""
    thread = threading.Thread(target=watch.run, args=(poll_seconds,), name="notices", daemon=True)
    thread.start()
    try:
        yield watch
    finally:
        watch.over.set()
        thread.join()


def _own_scope() -> tuple[str, ...]:
    """The words before a command that give it a cgroup of its own to divide. Root may make groups
    anywhere, but systemd takes controllers back from those that it did not give away."""
    if os.getuid() != 0 or not SYSTEMD.is_dir():
        return ()
    return ("systemd-run", "--quiet", "--scope", "--property=Delegate=yes")


class Child:
    """A program in a session of its own: what it starts ends with it."""

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
        """Its exit code; None while it runs on after so many seconds."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def leave(self) -> None:
        """Tell it to end in order; at once, when it has not after a while."""
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)
        if self.wait(GRACE_SECONDS) is None:
            self.kill()

    def kill(self) -> None:
        """End it and all that it started."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        """Leave nothing of it, however one goes."""
        if self._process.poll() is None:
            self.kill()
        self._log.close()


SCHEMA = "advisor.guest-job/1"
STATES_FOLDER = "guests/"  # beneath a job's prefix: what instances tell of themselves
COMMANDS = SWEEP_RUN, VERIFY, MEASURE = "sweep run", "verify", "measure"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_DEVICE = re.compile(r"/dev/(sd|xvd)[a-z]{1,2}")
_DISK_TYPE = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
# As pip takes it: a name, extras, a version; nothing that could be an option or an address.
_REQUIREMENT = re.compile(r"([a-z][a-z0-9-]*(\[[a-z,]+\])?(==[0-9]+(\.[0-9]+)*(\.\*)?)?)?")
_PREFIX = re.compile(r"[A-Za-z0-9._/-]+[A-Za-z0-9._-]")


class Job(Struct, frozen=True, kw_only=True):
    """A sweep, a verification, or the load of a language model, on one instance.

    `arguments` are those of `advisor` and the words of `command`, but for where disks are mounted;
    `local_disk` has the instance's own disk mounted, too. `disks` has the disk type by the device's name in
    the launch (`/dev/sdf`: `gp3`). All that the instance writes goes beneath `prefix` of `bucket` (in
    `region`), which all instances of one slot share. `database_parameter` names the SSM parameter
    (SecureString) that holds the URL of a shared database; empty: measurements go to the bucket. `engine` is
    the package that serves a language model, as pip takes it; empty: none is installed."""

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
        """The document's address, as one word for a command line."""
        return f"s3://{self.bucket}/{self.key}"


def job_to_json(job: Job) -> str:
    """The document; the same job gives the same bytes."""
    return json.dumps({"schema": SCHEMA, **asdict(job)}, indent=1, sort_keys=True)


def job_from_json(text: str) -> Job:
    """The job of a document; `DataError` for anything else."""
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
