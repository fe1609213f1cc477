"""The job of an instance, as a JSON document in the bucket; it holds no secret."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from advisor.errors import DataError

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
    `local_disk` has the instance's own disk mounted, too. `disks` has
    the disk type by the device's name in the launch (`/dev/sdf`: `gp3`). All that the instance
    writes goes beneath `prefix` of `bucket` (in `region`), which all instances of one slot share.
    `database_parameter` names the SSM parameter (SecureString) that holds the URL of a shared
    database; empty: measurements go to the bucket. `engine` is the package that serves a language
    model, as pip takes it; empty: none is installed.
    """

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
            raise DataError("'{command}' is not what an instance does for a sweep", command=self.command[:80])
        if not _NAME.fullmatch(self.sweep_id):
            raise DataError(
                "'{sweep_id}' is no sweep id: letters, digits, '.', '_', '-'", sweep_id=self.sweep_id[:80]
            )
        if not _PREFIX.fullmatch(self.prefix) or ".." in self.prefix:
            raise DataError("'{prefix}' is no prefix of a bucket", prefix=self.prefix[:80])
        if not _REQUIREMENT.fullmatch(self.engine):
            raise DataError("'{engine}' is no package of an engine", engine=self.engine[:80])
        for device, disk_type in self.disks.items():
            if not (_DEVICE.fullmatch(device) and _DISK_TYPE.fullmatch(disk_type)):
                raise DataError(
                    "'{device}': '{disk_type}' is no device name with a disk type",
                    device=device,
                    disk_type=disk_type,
                )

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
    document = {
        "schema": SCHEMA,
        "sweep_id": job.sweep_id,
        "region": job.region,
        "bucket": job.bucket,
        "prefix": job.prefix,
        "arguments": list(job.arguments),
        "disks": dict(job.disks),
        "database_parameter": job.database_parameter,
        "command": job.command,
        "local_disk": job.local_disk,
        "engine": job.engine,
    }
    return json.dumps(document, indent=1, sort_keys=True)


def job_from_json(text: str) -> Job:
    """The job of a document; `DataError` for anything else."""
    try:
        return _job(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(
            "this is no job of an instance: {name}: {error}", name=type(error).__name__, error=error
        ) from error


def place_of(url: str) -> tuple[str, str]:
    """Bucket and key of `s3://bucket/key`."""
    match = re.fullmatch(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])/(\S+)", url)
    if not match:
        raise DataError("'{url}' names no object", hint="write it like s3://bucket/key", url=url)
    return match[1], match[2]


def _job(document: Mapping[str, Any]) -> Job:
    if document["schema"] != SCHEMA:
        raise ValueError(f"schema {document['schema']}, not {SCHEMA}")
    return Job(
        sweep_id=str(document["sweep_id"]),
        region=str(document["region"]),
        bucket=str(document["bucket"]),
        prefix=str(document["prefix"]),
        arguments=tuple(map(str, document["arguments"])),
        disks={str(key): str(value) for key, value in document["disks"].items()},
        database_parameter=str(document["database_parameter"]),
        command=str(document["command"]),
        local_disk=bool(document["local_disk"]),
        engine=str(document["engine"]),
    )
