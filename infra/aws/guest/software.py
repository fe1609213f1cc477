"""The start script of an instance, and the archive with the advisor that it installs."""

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
# Extras for an instance with a serving engine, which brings its torch.
SERVING_EXTRAS = ("endpoint",)
_LEVEL = 6  # of gzip: 9 takes three times as long, for a hundredth less
_NOT_SENT = frozenset({"__pycache__", "build", "sources"})  # the last two: builders of the bundle in `infra`


class Software(Struct, frozen=True):
    """An archive and its digest; equal archives have equal keys in a bucket."""

    content: bytes
    sha256: str

    @property
    def key(self) -> str:
        """The archive's key in a bucket."""
        return f"software/{self.sha256}.tar.gz"


def packed_software(root: Path | None = None, extras: Iterable[str] = EXTRAS) -> Software:
    """An archive of the packages under `root` (by default the running ones) and their requirements. Equal
    files give equal bytes, at any time and on any machine."""
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
    """The versions that are installed here, as pip constraints. Local parts (`2.13.0+cpu`) are cut, so that
    the instance gets the build for its GPU."""
    names = {package.name for package in metadata.distributions()} - {PACKAGE}
    return "".join(f"{name}=={metadata.version(name).partition('+')[0]}\n" for name in sorted(names))


def requirements(root: Path, extras: frozenset[str]) -> str:
    """The pip requirements of the packages under `root`, or of the installed ones."""
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
    """The files to pack. In a checkout three packages are links, which `rglob` follows only as its start."""
    paths = {path for package in PACKAGES for path in (root / package).rglob("*")}
    for path in sorted(paths):
        if path.is_file() and not _NOT_SENT & set(path.relative_to(root).parts):
            yield path


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), 0o644
    archive.addfile(entry, io.BytesIO(content))


ROOT = "/opt/advisor"
PER_BOOT = "/var/lib/cloud/scripts/per-boot"  # cloud-init runs its scripts at every start
BOOT_LOG = "/var/log/cloud-init-output.log"  # cloud-init's log of the start script's output
MOST_BYTES = 16 * 1024  # EC2's limit, before base64


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
    """The script for `UserData` (boto3 encodes it). `now` bounds the life of an instance with a wrong clock;
    equal `now` gives equal scripts, as a launch's client token requires. `DataError` if the instance would
    expire within a minute, or the script is too long."""
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


if __name__ == "__main__":  # used to build an image (infra/image)
    sys.stdout.buffer.write(packed_software().content)
