"""A sweep as a job of a Ray cluster, into PostgreSQL: it outlives the terminal that submitted it,
and is watched and stopped by who reaches the database."""

import fcntl
import json
import os
import pty
import secrets
import subprocess
import sys
import termios
import time
from contextlib import closing, contextmanager
from pathlib import Path
from signal import SIGHUP
from urllib.request import urlopen

import pytest
import sqlalchemy

from advisor.domain import Status
from advisor.store.measurements import SqlStore
from advisor.sweeps.measure.endpoint.engines import free_ports
from tests.processes import as_in_a_terminal
from tests.sweeps.builders import LEFT_TO_THE_COLLECTOR
from tests.sweeps.ray_clusters import started_node

pytest.importorskip("aiohttp_cors", reason="Ray's job server needs ray[default] (extra dev)")
pytestmark = [pytest.mark.slow, pytest.mark.ray, *LEFT_TO_THE_COLLECTOR]
PROGRAMS = Path(sys.executable).parent
COUNT = 4
MEMORY = ",".join(f"{1024 + number}MiB" for number in range(COUNT))

# Another driver, which has the leases of trials until a line names those that are free, or `stop` ends it.
HOLDER = """
import sys
from advisor.store.measurements import SqlStore
from advisor.sweeps.trial.ownership import this_process
store, owner = SqlStore(sys.argv[1], lease_seconds=600), this_process()
store.leases.take(dict.fromkeys(sys.argv[2:], ""), owner)
print("holds", flush=True)
for line in sys.stdin:
    store.leases.give_back(owner, line.split())
"""


class Head:
    """A cluster of one node with a job server, whose user has the database's password in a file."""

    def __init__(self, port, url):
        self.address, self.url = f"http://127.0.0.1:{port}", url

    def submit(self, *request, name, terminal=None):
        """`ray job submit`, on a terminal that is closed later or until the job has begun."""
        environment = json.dumps({"env_vars": {"ADVISOR_DATABASE_URL": self.url}})
        wait = () if terminal else ("--no-wait",)
        words = f"job submit --address {self.address} --submission-id {name} --runtime-env-json"
        command = [PROGRAMS / "ray", *words.split(), environment, *wait, "--", "advisor", "sweep", *request]
        return subprocess.Popen(
            command,
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            start_new_session=bool(terminal),
            preexec_fn=_take_terminal if terminal else None,
        )

    def state(self, name):
        with urlopen(f"{self.address}/api/jobs/{name}") as answer:
            return json.load(answer)["status"]

    def wait(self, name):
        while self.state(name) in ("PENDING", "RUNNING"):
            time.sleep(0.2)
        return self.state(name)


def _take_terminal():
    as_in_a_terminal()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@contextmanager
def terminal_closed_later():
    """A terminal of one's own; what runs on it loses it after the block."""
    here, theirs = pty.openpty()
    try:
        yield theirs
    finally:
        os.close(theirs)
        os.close(here)


@pytest.fixture
def password():
    return secrets.token_hex(16)


@pytest.fixture
def head(postgresql, password, tmp_path_factory, tmp_path, monkeypatch):
    owned = sqlalchemy.make_url(postgresql.new_database())
    user, schema = f"job_{secrets.token_hex(4)}", owned.query["options"].partition("=")[2]
    postgresql.execute(f"CREATE ROLE {user} LOGIN PASSWORD '{password}'")
    postgresql.execute(f"GRANT ALL ON SCHEMA {schema} TO {user}")
    passwords = tmp_path / "pgpass"
    passwords.write_text(f"127.0.0.1:{postgresql.port}:*:{user}:{password}\n")
    passwords.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(passwords))
    monkeypatch.setenv("PATH", f"{PROGRAMS}:{os.environ['PATH']}")
    folder = tmp_path_factory.mktemp("r")  # a socket's name has 107 bytes
    ports = free_ports(2)
    options = (
        f"--head --port={ports[0]} --include-dashboard=true --dashboard-host=127.0.0.1 "
        f"--dashboard-port={ports[1]} --num-cpus=2 --resources"
    )
    url = owned._replace(username=user, password=None).render_as_string()
    with started_node(folder, *options.split(), '{"advisor_trial": 2}'):
        yield Head(ports[1], url)
        written = [path for path in folder.rglob("*") if path.is_file()]
        assert written
        assert not [path for path in written if password.encode() in path.read_bytes()]


def advisor(head, *words):
    """A command of another process, of one who reaches the database only."""
    return subprocess.run(
        [PROGRAMS / "advisor", "sweep", *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "ADVISOR_DATABASE_URL": head.url},
    )


def rows_of(store, at_least):
    """Those of the store by their trials, once there are so many."""
    while len(rows := {row.trial.trial_id: row for row in store.all()}) < at_least:
        time.sleep(0.1)
    return rows


@pytest.mark.timeout(420)
def test_a_job_outlives_its_terminal_and_is_watched_stopped_and_continued(head, password, images):
    """No password of the database is in the job's description, its log or the dashboard."""
    words = (
        f"--ray-address auto --networks googlenet --tasks preprocessing --vcpus 0.5 --memory {MEMORY} "
        f"--disks unlimited --accelerator cpu --iterations 3 --data {images}"
    ).split()
    sweep = ("run", *words, "--when-busy", "skip")
    planned = json.loads(advisor(head, "plan", *words, "-o", "json").stdout)["trials"]
    freed, kept = (row["trial_id"] for row in planned[:2])
    holding = [sys.executable, "-c", HOLDER, head.url, freed, kept]
    with (
        closing(SqlStore(head.url)) as store,
        subprocess.Popen(holding, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder,
    ):
        assert holder.stdout.readline() == "holds\n"
        with terminal_closed_later() as terminal:
            submitting = head.submit(*sweep, name="sweep-1", terminal=terminal)
            rows_of(store, 1)
            assert submitting.poll() is None
        assert submitting.wait(timeout=30) == -SIGHUP
        print(freed, file=holder.stdin, flush=True)
        later = rows_of(store, COUNT - 1)
        assert later.keys() == {row["trial_id"] for row in planned} - {kept}
        assert head.state("sweep-1") == "RUNNING"
        counts = json.loads(advisor(head, "status", "-o", "json").stdout)["counts"]
        assert sum(counts.get(status, 0) for status in Status) == len(later)
        lines = map(json.loads, advisor(head, "log", "-o", "json").stdout.splitlines())
        assert later.keys() <= {line["trial_id"] for line in lines if line["event"] == "stored"}
        with urlopen(f"{head.address}/api/jobs/") as answer:
            described = answer.read().decode()
        assert head.url in described
        assert password not in described

        assert head.submit("stop", name="stop-1").wait(timeout=60) == 0
        assert head.wait("stop-1") == "SUCCEEDED"
        assert head.wait("sweep-1") == "FAILED"  # as after Ctrl-C
        assert store.leases.held() == {}
        assert rows_of(store, len(later)) == later
        assert head.submit(*sweep, name="sweep-2").wait(timeout=60) == 0
        assert head.wait("sweep-2") == "SUCCEEDED"
        rows = rows_of(store, COUNT)
    assert later == {name: rows[name] for name in later}
    assert {row.status for row in rows.values()} <= {Status.OK, Status.CONTAMINATED}
    assert not any(row.repeats for row in rows.values())
