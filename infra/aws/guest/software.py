"""The start script of an instance, and the advisor as an archive that it installs."""

from __future__ import annotations

import gzip
import hashlib
import io
import shlex
import sys
import tarfile
import tomllib
from collections.abc import Iterable, Iterator
from datetime import datetime
from importlib import metadata
from importlib.resources import files
from pathlib import Path

from msgspec import Struct

from advisor.errors import DataError
from advisor.extras import PACKAGE, core_and
from advisor.infra.aws.guest.job import STATES_FOLDER, Job

PACKAGES = ("advisor", "advisor/infra", "advisor/models", "advisor/sweeps")
EXTRAS = ("sweep", "zoo", "formats", "postgres")
# Of an instance that loads an engine, which comes with a torch of its own.
SERVING_EXTRAS = ("endpoint",)
_LEVEL = 6  # of gzip: 9 takes three times as long, for a hundredth less
_NOT_SENT = frozenset({"__pycache__", "build", "sources"})  # of `infra`: what makes a bundle, and out of what


class Software(Struct, frozen=True):
    """An archive and its digest; `key` is its place in a bucket, equal for equal bytes."""

    content: bytes
    sha256: str

    @property
    def key(self) -> str:
        """The object's name."""
        return f"software/{self.sha256}.tar.gz"


def packed_software(root: Path | None = None, extras: Iterable[str] = EXTRAS) -> Software:
    """The packages beneath `root` (by default those that run now) and their requirements. The same files give
    the same bytes, whenever and wherever they are packed."""
    root = root or Path(__file__).parents[4]
    buffer = io.BytesIO()
    with (
        gzip.GzipFile("", "wb", _LEVEL, buffer, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        for path in _files(root):
            _add(archive, str(path.relative_to(root)), path.read_bytes())
        _add(archive, "constraints.txt", constraints().encode())
        _add(archive, "requirements.txt", requirements(root, frozenset(extras)).encode())
    content = buffer.getvalue()
    return Software(content, hashlib.sha256(content).hexdigest())


def constraints() -> str:
    """The versions that run here, for pip. A version with a local part (`2.13.0+cpu`) is a build for this
    machine: its public part is asked for, and the instance takes the build for its GPU."""
    names = {each.name for each in metadata.distributions()} - {PACKAGE}
    return "".join(f"{name}=={metadata.version(name).partition('+')[0]}\n" for name in sorted(names))


def requirements(root: Path, extras: frozenset[str]) -> str:
    """The requirements for pip: those of the packages beneath `root`, or of the installed ones."""
    path = root / "pyproject.toml"
    if path.is_file():
        project = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
        optional = project["optional-dependencies"]
        wanted = [*project["dependencies"], *(item for name in extras for item in optional[name])]
    else:
        try:
            wanted = core_and(extras)
        except metadata.PackageNotFoundError:
            raise DataError(
                f"neither an installed {PACKAGE} nor its pyproject.toml is here, which say what an "
                "instance needs",
                hint="install it (pip install .)",
            ) from None
    return "".join(f"{line}\n" for line in sorted({item.partition(";")[0].strip() for item in wanted}))


def _files(root: Path) -> Iterator[Path]:
    """In a checkout three rooms are links, which `rglob` does not follow below its start."""
    paths = {path for package in PACKAGES for path in (root / package).rglob("*")}
    for path in sorted(paths):
        if path.is_file() and not _NOT_SENT & set(path.relative_to(root).parts):
            yield path


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), 0o644
    archive.addfile(entry, io.BytesIO(content))


ROOT = "/opt/advisor"
PER_BOOT = "/var/lib/cloud/scripts/per-boot"  # cloud-init runs these at every start
BOOT_LOG = "/var/log/cloud-init-output.log"  # what cloud-init keeps of this script
MOST_BYTES = 16 * 1024  # EC2's limit, before it is encoded


def user_data(
    job: Job,
    software: Software,
    *,
    expires_at: datetime,
    now: datetime,
    root: str = ROOT,
    per_boot: str = PER_BOOT,
    boot_log: str = BOOT_LOG,
) -> str:
    """The script for `UserData` (boto3 encodes it itself). `now` bounds the life of an instance whose clock
    is wrong; the same `now` gives the same script, as the client token of a launch needs. `DataError` when
    the time is over already, or the script too long."""
    lifetime = int((expires_at - now).total_seconds())
    if lifetime < 60:
        raise DataError(f"sweep {job.sweep_id} expires within a minute", hint="nothing can be measured")
    parameters = {
        "sweep_id": job.sweep_id,
        "region": job.region,
        "expires_at_seconds": str(int(expires_at.timestamp())),
        "lifetime_seconds": str(lifetime),
        "bucket": job.bucket,
        "software_key": software.key,
        "software_sha256": software.sha256,
        "job_url": job.url,
        "root": root,
        "per_boot": per_boot,
        "boot_log": boot_log,
        "states_folder": f"{job.prefix}/{STATES_FOLDER}".rstrip("/"),
    }
    lines = [f"{name}={shlex.quote(value)}" for name, value in parameters.items()]
    program = (files("advisor.infra.aws.guest") / "user_data.sh").read_text(encoding="utf-8")
    script = "\n".join(["#!/bin/bash", *lines, program])
    if len(script.encode()) > MOST_BYTES:
        raise DataError(f"the start script has more than {MOST_BYTES} bytes", hint="shorten the names")
    return script


if __name__ == "__main__":  # for an image (infra/image)
    sys.stdout.buffer.write(packed_software().content)
