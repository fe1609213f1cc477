"""An instance's start script, run for real by bash, where no program can harm this machine.

Its PATH has links to a few harmless programs of the system, and recorders by the names of those
that would end or change the machine. A recorder notes its call and leaves with a given code.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HARMLESS = ("bash", "sh", "mkdir", "chmod", "date", "tar", "gzip", "sha256sum", "cat", "sleep")
# Whatever is asked of these is noted, and nothing is done.
RECORDED = ("shutdown", "systemd-run", "systemctl", "poweroff", "apt-get")
_RECORDER = """#!/bin/sh
echo "{name} $*" >> {calls}
exit {code}
"""
# `python3.13 -m venv venv`: an environment whose Python is the one of the tests.
_VENV = """#!/bin/sh
echo "python3.13 $*" >> {calls}
mkdir -p "$3/bin"
printf '#!/bin/sh\\necho "python $*" >> {calls}\\nexec {python} "$@"\\n' > "$3/bin/python"
printf '#!/bin/sh\\necho "pip $*" >> {calls}\\nexit {pip}\\n' > "$3/bin/pip"
chmod 755 "$3/bin/python" "$3/bin/pip"
exit {code}
"""


@dataclass(slots=True)
class Sandbox:
    """A folder with the programs; what they were called with is in `calls`."""

    folder: Path
    environment: dict[str, str]

    @property
    def programs(self) -> Path:
        return self.folder / "programs"

    @property
    def calls(self) -> list[str]:
        """Program and arguments, a line each, in order."""
        path = self.folder / "calls"
        return path.read_text().splitlines() if path.exists() else []

    @property
    def ends(self) -> int:
        """How often the machine was told to power off now."""
        return self.calls.count("shutdown -h now")

    def answer(self, name: str, code: int, *, pip: int = 0) -> None:
        """Make a program leave with this code from now on."""
        text = _VENV if name == "python3.13" else _RECORDER
        program = self.programs / name
        program.write_text(
            text.format(
                name=name, calls=self.folder / "calls", code=code, pip=pip, python=sys.executable
            )
        )
        program.chmod(0o755)

    def start(self, script: str, **options: bool) -> subprocess.Popen[str]:
        """The script as cloud-init would start it; what it says comes by a pipe."""
        path = self.folder / "user-data"
        path.write_text(script)
        return subprocess.Popen(
            [str(self.programs / "bash"), str(path)], env=self.environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=self.folder, **options,
        )  # fmt: skip

    def run(self, script: str) -> str:
        """Start it and wait; what it said."""
        return self.start(script).communicate(timeout=120)[0]


def sandbox(folder: Path, **environment: str) -> Sandbox:
    """A new one beneath a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    made = Sandbox(folder, {"PATH": str(folder / "programs"), **environment})
    made.programs.mkdir()
    for name in HARMLESS:
        found = shutil.which(name)
        assert found, f"this machine has no {name}"
        (made.programs / name).symlink_to(os.path.realpath(found))
    for name in (*RECORDED, "python3.13"):
        made.answer(name, 0)
    return made
