"""The metadata client against a service that wants version 2."""

import os
import signal
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest

from advisor.errors import LiveError
from advisor.infra.aws.asking import Clock
from advisor.infra.aws.guest import job
from advisor.infra.aws.guest.job import SPOT, Child, Watch, watching
from advisor.infra.aws.guest.metadata import ADDRESS_VARIABLE, Metadata
from tests.infra.aws.guest.sandbox import Service, serving
from tests.processes import gone


def test_it_takes_one_token_for_many_questions_and_another_when_that_is_over(service, monkeypatch):
    """A moment of trouble is passed over, and a proxy never asked."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    service.broken = 2
    metadata = Metadata(service.address)
    assert metadata.instance_id() == "i-0123456789abcdef0"
    assert metadata.region() == "us-east-1"
    assert service.tokens == 1
    with serving(Service(uses=1)) as short:
        metadata = Metadata(short.address)
        assert [metadata.region() for _ in range(3)] == ["us-east-1"] * 3
        assert short.tokens == 3


@pytest.mark.parametrize("text", ["", "soon", "[]", '{"action": "stop"}', '{"time": 3}'])
def test_a_notice_that_cannot_be_read_is_one(service, text):
    service.take_back(text)
    assert Metadata(service.address).is_taken_back()


def test_where_there_is_no_such_service_the_line_says_so(monkeypatch):
    with serving() as service:
        gone = service.address
    monkeypatch.setenv(ADDRESS_VARIABLE, gone)
    with pytest.raises(LiveError, match="is this EC2"):
        Metadata().region()


# A real child process, watched with a real metadata service.

SLEEPER = "import time; print('begun', flush=True); time.sleep(60)"
DEAF = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEPER}"
POLITE = "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(7)); " + SLEEPER
LATER = timedelta(hours=1)


def started(tmp_path, program):
    log = tmp_path / "log"
    child = Child((sys.executable, "-c", program), os.environ, log)
    while "begun" not in log.read_text():
        assert child.wait(0.02) is None
    return child


def watch_of(service, child, lasts=LATER):
    expires_at = datetime.now(UTC) + lasts
    return Watch(Metadata(service.address), expires_at, Clock(), child.leave)


def ended(child):
    while (code := child.wait(0.05)) is None:
        pass
    return code


def test_where_systemd_runs_the_child_has_a_scope_of_its_own_to_divide(tmp_path, monkeypatch):
    """Root's groups beneath the kernel's root lose their controllers to systemd now and then."""
    program = tmp_path / "systemd-run"
    program.write_text('#!/bin/sh\necho "$1 $2 $3"; shift 3; exec "$@"\n')
    program.chmod(0o755)
    monkeypatch.setattr(job, "SYSTEMD", tmp_path)
    monkeypatch.setattr(job.os, "getuid", lambda: 0)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with closing(started(tmp_path, SLEEPER)):
        assert "--quiet --scope --property=Delegate=yes\n" in (tmp_path / "log").read_text()


@pytest.mark.parametrize("broken", [0, 10**9])
def test_a_notice_ends_the_child_in_order_and_a_service_in_trouble_is_none(service, tmp_path, broken):
    with closing(started(tmp_path, POLITE)) as child:
        service.broken = broken
        with watching(watch_of(service, child), 0.05) as watch:
            assert child.wait(0.5) is None
            service.broken = 0
            service.take_back()
            assert ended(child) == 7
        assert watch.reason == SPOT


def test_a_child_that_does_not_listen_is_killed(service, tmp_path, monkeypatch):
    monkeypatch.setattr(job, "GRACE_SECONDS", 0.2)
    with closing(started(tmp_path, DEAF)) as child:
        service.take_back()
        with watching(watch_of(service, child), 0.05):
            assert ended(child) == -signal.SIGKILL


def test_however_one_goes_nothing_of_the_child_is_left(tmp_path):
    program = (
        "import subprocess, sys; one = subprocess.Popen([sys.executable, '-c', 'import time; "
        "time.sleep(60)']); print(one.pid, 'begun', flush=True); one.wait()"
    )
    with closing(started(tmp_path, program)):
        pid = int((tmp_path / "log").read_text().split()[0])
    assert gone(pid)


@pytest.fixture
def service():
    with serving() as entry:
        yield entry
