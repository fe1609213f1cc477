"""The engine that serves a language model on an instance, in an environment of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.errors import DataError
from advisor.infra.aws.errors import Refused

if TYPE_CHECKING:
    from advisor.infra.aws.asking import Aws

# SSM parameter (SecureString) with a token of Hugging Face's; gated models are not loaded without.
HUB_TOKEN = "/advisor/hf-token"


def installed_engine(requirement: str, folder: Path) -> Path:
    """The folder of its programs; `DataError` with pip's last line where it cannot be had."""
    place = folder / "engine"
    for command in (
        [sys.executable, "-m", "venv", str(place)],
        [str(place / "bin" / "python"), "-m", "pip", "install", "--quiet", requirement],
    ):
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        if ended.returncode:
            lines = (ended.stderr or ended.stdout).strip().splitlines()
            raise DataError(
                "{engine} cannot be installed: {why}",
                engine=requirement,
                why=lines[-1] if lines else "it told nothing",
            )
    return place / "bin"


def engine_environment(programs: Path, aws: Aws, region: str) -> dict[str, str]:
    """The environment variables by which a process finds the engine; with the token for gated models,
    where the account has one that the instance may read."""
    found = {"PATH": os.pathsep.join([str(programs), os.environ.get("PATH", os.defpath)])}
    try:
        answer = aws.ask(region, "get_parameter", service="ssm", Name=HUB_TOKEN, WithDecryption=True)
    except Refused:
        return found
    return found | {"HF_TOKEN": str(answer["Parameter"]["Value"])}
