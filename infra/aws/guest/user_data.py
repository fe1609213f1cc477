"""The script that an instance runs when it starts: parameters, then `user_data.sh` as it is."""

from __future__ import annotations

import shlex
from datetime import datetime
from importlib.resources import files

from advisor.errors import DataError
from advisor.infra.aws.guest.job import STATES_FOLDER, Job
from advisor.infra.aws.guest.software import Software

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
        raise DataError(
            "sweep {sweep_id} expires within a minute", hint="nothing can be measured", sweep_id=job.sweep_id
        )
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
        "boot_log_program": _text("boot_log.py"),
    }
    lines = [f"{name}={shlex.quote(value)}" for name, value in parameters.items()]
    script = "\n".join(["#!/bin/bash", *lines, _text("user_data.sh")])
    if len(script.encode()) > MOST_BYTES:
        raise DataError(
            "the start script has more than {most_bytes} bytes",
            hint="shorten the names",
            most_bytes=MOST_BYTES,
        )
    return script


def _text(name: str) -> str:
    return (files("advisor.infra.aws.guest") / name).read_text(encoding="utf-8")
