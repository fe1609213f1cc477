"""What a key is made of, and what its scope allows."""

import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.errors import UsageError
from advisor.store.keys import ApiKeys, Scope, key_id_of, parse_lifetime_seconds, scope_of
from advisor.store.measurements import SqlStore, open_store
from tests.advisor.store.writer import OWN_FROM
from tests.postgresql import DATABASES


def test_a_scope_allows_what_stands_before_it():
    allowed = {scope: [other for other in Scope if scope.allows(other)] for scope in Scope}
    assert allowed == {
        Scope.READ: [Scope.READ],
        Scope.MEASURE: [Scope.READ, Scope.MEASURE],
        Scope.ADMIN: [Scope.READ, Scope.MEASURE, Scope.ADMIN],
    }
    with pytest.raises(UsageError, match="did you mean admin"):
        scope_of("amdin")


def test_each_key_is_another_one_and_tells_its_id(tmp_path):
    book = ApiKeys(f"sqlite:///{tmp_path}/m.sqlite")
    made = [book.add(f"k{i}", "read", lifetime_seconds=None, now=float(i)) for i in range(5)]
    book.close()
    assert len({key for key, _ in made}) == 5
    assert [key_id_of(key) for key, _ in made] == [kept.key_id for _, kept in made]


@given(st.text())
def test_what_is_no_key_has_no_id(text):
    assert key_id_of(text) is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30m", 1800.0), ("12h", 43200.0), ("90d", 7_776_000.0), ("2W", 1_209_600.0), ("1y", 31_536_000.0)],
)
def test_a_lifetime_is_told_in_minutes_hours_days_weeks_or_years(text, seconds):
    assert parse_lifetime_seconds(text) == seconds


@pytest.mark.parametrize("text", ["90", "0d", "-1d", "1.5h", "d", "9999999d", "90 days", "\uff11d"])
def test_any_other_lifetime_is_refused(text):
    with pytest.raises(UsageError, match="12h, 90d or 1y"):
        parse_lifetime_seconds(text)


@pytest.mark.parametrize("name", ["", " ", "-a", "a b", "a\n", "a/b", "é", "x" * 65, "0123456789ab"])
def test_a_name_that_could_be_mistaken_is_refused(tmp_path, name):
    book = ApiKeys(f"sqlite:///{tmp_path}/m.sqlite")
    with pytest.raises(UsageError, match="a key's name must be"):
        book.add(name, "read", lifetime_seconds=None, now=1.0)
    book.close()


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
