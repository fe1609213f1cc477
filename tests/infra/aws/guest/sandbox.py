"""An instance's start script, run for real by bash, where no program can harm this machine.

Its PATH has links to a few harmless programs of the system, and recorders by the names of those that would
end or change the machine. A recorder notes its call and leaves with a given code."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from pathlib import Path

from advisor.infra.aws.guest.job import Job
from advisor.infra.aws.guest.software import Software, user_data
from tests.loopback import on_loopback

TTL = "X-aws-ec2-metadata-token-ttl-seconds"
TOKEN = "X-aws-ec2-metadata-token"


@dataclass
class Service:
    """What it knows; a token serves `uses` requests. `broken` requests are answered with 503."""

    told: dict[str, str] = field(
        default_factory=lambda: {
            "meta-data/instance-id": "i-0123456789abcdef0",
            "meta-data/placement/region": "us-east-1",
        }
    )
    uses: int = 1_000
    broken: int = 0
    tokens: int = 0
    address: str = ""
    left: dict[str, int] = field(default_factory=dict)

    def take_back(self, text='{"action": "terminate", "time": "2026-11-21T12:02:00Z"}'):
        """The notice of the spot market."""
        self.told["meta-data/spot/instance-action"] = text


@contextmanager
def serving(service: Service | None = None) -> Iterator[Service]:
    service = service or Service()

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self):
            if self.path != "/latest/api/token" or not self.headers.get(TTL, "").isdigit():
                return self._answer(400)
            service.tokens += 1
            token = f"token-{service.tokens}"
            service.left[token] = service.uses
            return self._answer(200, token)

        def do_GET(self):
            if service.broken:
                service.broken -= 1
                return self._answer(503)
            token = self.headers.get(TOKEN, "")
            if service.left.get(token, 0) <= 0:
                return self._answer(401)
            service.left[token] -= 1
            text = service.told.get(self.path.removeprefix("/latest/"))
            return self._answer(404) if text is None else self._answer(200, text)

        def _answer(self, status, text=""):
            self.send_response(status)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

    with on_loopback(Handler) as server:
        service.address = f"http://127.0.0.1:{server.server_port}"
        yield service


HARMLESS = shlex.split("bash sh mkdir chmod date tar gzip sha256sum cat sleep rm head tail sed curl mktemp")
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
_NVIDIA_SMI = """#!/bin/sh
echo "nvidia-smi $*" >> {calls}
case "$*" in *--query-supported-clocks*) printf '5001, 1590\\n5001, 1575\\n405, 645\\n';; esac
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
        text = _VENV if name == "python3.13" else _RECORDER
        program = self.programs / name
        program.write_text(
            text.format(name=name, calls=self.folder / "calls", code=code, pip=pip, python=sys.executable)
        )
        program.chmod(0o755)

    def add_gpu(self) -> None:
        """The driver's tool, of a T4: clocks as pairs of memory and processor, highest first."""
        program = self.programs / "nvidia-smi"
        program.write_text(_NVIDIA_SMI.format(calls=self.folder / "calls"))
        program.chmod(0o755)

    def user_data(self, job: Job, software: Software, lasts: timedelta, now: datetime | None = None) -> str:
        """The start script of a launch at that moment, for this instance alone."""
        now = now or datetime.now(UTC)
        names = {"root": "root", "per_boot": "per-boot", "boot_log": "said"}
        places = {key: str(self.folder / name) for key, name in names.items()}
        return user_data(job, software, expires_at=now + lasts, now=now, **places)

    @contextmanager
    def started(self, script: str) -> Iterator[subprocess.Popen[bytes]]:
        """The script as cloud-init would start it, in a session of its own; what it says is in
        `said`. Whatever of it still runs at the end is killed."""
        path = self.folder / "user-data"
        path.write_text(script)
        with (self.folder / "said").open("wb") as said:
            process = subprocess.Popen(
                [str(self.programs / "bash"), str(path)],
                env=self.environment,
                stdout=said,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            for entry in self.processes():
                with suppress(ProcessLookupError):
                    os.kill(entry, signal.SIGKILL)
            process.wait()

    def run(self, script: str) -> str:
        """Start it and wait; what it said."""
        with self.started(script) as process:
            process.wait(timeout=400)
        return self.said

    @property
    def said(self) -> str:
        return (self.folder / "said").read_text()

    def processes(self, *words: str) -> list[int]:
        """The ids of what runs on this instance with all of these words in its command; the
        instance's own folder is in the environment of all of it."""
        ours = f"PATH={self.programs}".encode()
        result = []
        for path in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                command = (path / "cmdline").read_bytes().decode().split("\0")
                if ours in (path / "environ").read_bytes().split(b"\0") and any(command):
                    result += [int(path.name)] * set(words).issubset(command)
        return result


def sandbox(folder: Path, **environment: str) -> Sandbox:
    """A new one beneath a folder; a sweep on it is refused for none that runs beside this test."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = {"ADVISOR_SWEEP_LOCK": os.environ["ADVISOR_SWEEP_LOCK"]}
    made = Sandbox(folder, {"PATH": str(folder / "programs"), **lock, **environment})
    made.programs.mkdir()
    for name in HARMLESS:
        result = shutil.which(name)
        assert result, f"this machine has no {name}"
        (made.programs / name).symlink_to(os.path.realpath(result))
    (made.programs / "python3").symlink_to(os.path.realpath(sys.executable))
    for name in (*RECORDED, "python3.13"):
        made.answer(name, 0)
    return made
