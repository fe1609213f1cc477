"""Eight processes write at once, and one of them is killed: nothing is lost, nothing is twice."""

import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import pytest

from advisor.store.measurements import SqlStore, open_store
from tests.advisor.store.writer import OWN_FROM
from tests.postgresql import DATABASES

WRITERS, OWN, SHARED = 8, 1250, 200


@pytest.fixture(params=DATABASES)
def url(request):
    if request.param == "postgresql":
        yield request.getfixturevalue("postgresql").new_database()
        return
    # What is tried here is who waits for whom; the disk alone would take minutes.
    memory = Path("/dev/shm")
    folder = tempfile.mkdtemp(dir=memory if memory.is_dir() else None)
    yield f"sqlite:///{folder}/m.sqlite"
    shutil.rmtree(folder)


def started(url, number, own, shared):
    command = [sys.executable, "-m", "tests.advisor.store.writer", url]
    return subprocess.Popen(
        [*command, str(number), str(own), str(shared)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(writer):
    out, error = writer.communicate(timeout=240)
    assert writer.returncode == 0, error
    return int(out)


def sizes(store):
    return [int(measurement.trial.resources.memory_mib) for measurement in store.all()]


@pytest.mark.night
@pytest.mark.timeout(400)
def test_eight_writers_lose_none_of_ten_thousand(url):
    writers = [started(url, number, OWN, SHARED) for number in range(WRITERS)]
    won = [ended(writer) for writer in writers]
    with closing(open_store(url, reading=True)) as store:
        stored = sizes(store)
    own = {OWN_FROM * (n + 1) + step for n in range(WRITERS) for step in range(OWN)}
    assert len(stored) == WRITERS * OWN + SHARED
    assert set(stored) == own | {1 + step for step in range(SHARED)}
    assert sum(won) == SHARED  # each shared trial was told to be theirs to one writer only


@pytest.mark.night
def test_a_killed_writer_leaves_whole_rows_and_holds_up_nobody(url):
    with closing(SqlStore(url)) as store:
        killed, other = started(url, 0, 100_000, 0), started(url, 1, 300, 0)
        while len(store.statuses()) < 50:
            assert killed.poll() is None
            time.sleep(0.02)
        killed.send_signal(signal.SIGKILL)
        killed.communicate()
        ended(other)
        stored = sizes(store)
        of_killed = [size for size in stored if size < 2 * OWN_FROM]
        assert of_killed == list(range(OWN_FROM, OWN_FROM + len(of_killed)))
        assert len(stored) == len(of_killed) + 300
