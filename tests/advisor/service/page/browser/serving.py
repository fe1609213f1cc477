"""A real `advisor serve` as a process of its own, with a home of its own."""

import os
import re
import socket
import subprocess
import sys
import time
import urllib.request

_READY_SECONDS = 60


class Served:
    """The service on a free port; `command` runs another `advisor` beside it, in its home."""

    def __init__(self, home):
        self.home = home
        self.env = {**os.environ, "HOME": str(home), "ADVISOR_DATABASE_URL": f"sqlite:///{home}/store.sqlite"}
        for name in ("XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
            self.env.pop(name, None)
        self.process = None

    def start(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            port = taken.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.log = (self.home / "serve.log").open("ab")
        words = [sys.executable, "-m", "advisor.cli.main", "serve", "--port", str(port)]
        self.process = subprocess.Popen(words, env=self.env, stdout=self.log, stderr=self.log)
        try:
            self._wait()
        except BaseException:
            self.end()
            raise
        return self

    def command(self, *words):
        """What it prints."""
        done = subprocess.run(
            [sys.executable, "-m", "advisor.cli.main", *words],
            env=self.env,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        return done.stdout + done.stderr

    def new_key(self, name, scope="read"):
        return re.search(r"adv_\S+", self.command("keys", "add", name, "--scope", scope))[0]

    def end(self):
        if self.process:
            self.process.terminate()
            self.process.wait(20)
            self.log.close()

    def _wait(self):
        last = time.monotonic() + _READY_SECONDS
        while time.monotonic() < last:
            assert self.process.poll() is None, (self.home / "serve.log").read_text()[-2000:]
            try:
                urllib.request.urlopen(f"{self.url}/readyz", timeout=2)
                return
            except OSError:
                time.sleep(0.05)
        raise AssertionError("the service is not ready")
