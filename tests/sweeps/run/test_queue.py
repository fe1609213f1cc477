"""Several drivers of one store, and a store that goes away: nothing twice, nothing lost."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from unittest.mock import Mock

import pytest
from msgspec.structs import replace

from advisor.domain import Status
from advisor.errors import DataError
from advisor.store.measurements import SqlStore
from advisor.sweeps import formats as files
from advisor.sweeps.events import Event, collected, forward
from advisor.sweeps.run import queue
from advisor.sweeps.run.queue import leasing
from advisor.sweeps.run.runner import RETRIED, run_sweep
from advisor.sweeps.trial.ownership import this_process
from tests.sweeps.builders import TIME_BOX, AtOnce, measurement, resources, trial

TRIALS = [trial(resources=resources(memory_mib=float(size))) for size in range(1, 13)]


class Slow(AtOnce):
    """Takes a moment a trial, and notes which it measured."""

    def __init__(self, name, seconds=0.02, status=Status.OK):
        super().__init__()
        self.name = name
        self._seconds, self._status = seconds, status

    def execute(self, trials):
        for entry in trials:
            self.given.append(entry)
            time.sleep(self._seconds)
            yield measurement(trial=entry, started_at=f"{self.name} {len(self.given)}", status=self._status)


class Ahead(Slow):
    """Has several trials in flight, as Ray has."""

    def execute(self, trials):
        flight = []
        for entry in trials:
            flight.append(entry)
            if len(flight) >= 3:
                yield from super().execute([flight.pop(0)])
        yield from super().execute(flight)


class Telling(Ahead):
    """Prints the id of each trial that it measured."""

    def execute(self, trials):
        for row in super().execute(trials):
            sys.stdout.write(f"{row.trial.trial_id}\n")
            sys.stdout.flush()
            yield row


class Batches(Slow):
    """Claims several at once, as Ray does, the later ones first."""

    def execute(self, queue):
        left = list(reversed(queue.trials))
        while left:
            batch, left = left[:4], left[4:]
            yield from super().execute(queue.claim(batch))


@pytest.fixture
def store(url):
    with closing(SqlStore(url, patience_seconds=1.0)) as store:
        yield store


def at_once(url, executors, trials=TRIALS, **options):
    together, measured = threading.Barrier(len(executors)), {}

    def drive(executor):
        with closing(SqlStore(url)) as store:
            together.wait()
            measured[executor.name] = run_sweep(trials, executor, store, poll_seconds=0.05, **options)

    threads = [threading.Thread(target=drive, args=(executor,)) for executor in executors]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return measured


@pytest.mark.parametrize("kind", [Slow, Ahead, Batches])
def test_drivers_share_the_trials_and_measure_none_twice(url, store, kind):
    executors = [kind(name) for name in "abc"]
    measured = at_once(url, executors)
    given = [entry.trial_id for executor in executors for entry in executor.given]
    assert sorted(given) == sorted(entry.trial_id for entry in TRIALS)
    assert sum(row.measured for row in measured.values()) == len(TRIALS)
    assert len(store.all()) == len(TRIALS)
    assert store.leases.held() == {}


def test_drivers_share_the_repeats_too(url, store):
    thrice = [replace(entry, plan={**TIME_BOX, "repeats": 3}) for entry in TRIALS[:4]]
    executors = [Slow("a"), Ahead("b"), Batches("c")]
    for runs, given in ((3, 12), (4, 16)):  # as planned, and one more as a sweep that plans itself asks
        at_once(url, executors, thrice, runs_of=lambda _trial, runs=runs: runs)
        assert sum(len(executor.given) for executor in executors) == given
        assert [1 + len(row.repeats) for row in store.all()] == [runs] * 4


def test_what_failed_is_measured_again_by_one_driver_only(url, store):
    run_sweep(TRIALS, Slow("first", 0, Status.FAILED), store)
    executors = [Slow("a", status=Status.FAILED), Slow("b", status=Status.FAILED)]
    at_once(url, executors, again=RETRIED)
    assert sum(len(executor.given) for executor in executors) == len(TRIALS)


def test_a_driver_waits_for_the_others_trial_and_takes_it_when_they_are_gone(url, store, caplog):
    far = replace(this_process(), name="far:1:0", host="far", place="elsewhere")
    with closing(SqlStore(url, lease_seconds=3.0)) as theirs:
        theirs.leases.take({TRIALS[0].trial_id: ""}, far)
        mine = Slow("mine")
        run_sweep(TRIALS[:3], mine, store, poll_seconds=0.1)
    assert mine.given == [*TRIALS[1:3], TRIALS[0]]
    assert "waiting for 1 trial, measured by far" in caplog.text


def test_a_driver_that_is_late_does_not_undo_the_others_row(url, store):
    """It hung for longer than its lease; meanwhile somebody else measured its trial."""

    class Hung(Slow):
        def execute(self, trials):
            for entry in super().execute(trials):
                with closing(SqlStore(url)) as other:
                    other.append_all([replace(entry, started_at="other")])
                    other.write(lambda c: c.exec_driver_sql("DELETE FROM leases"))
                yield entry

    lines = []
    assert run_sweep(TRIALS[:1], Hung("late"), store, on_progress=lines.append).measured == 0
    assert [row.started_at for row in store.all()] == ["other"]
    assert (lines[-1].done, lines[-1].total) == (1, 1)


away = Mock(side_effect=DataError("away"))


@pytest.mark.parametrize("kind", [Slow, Ahead])
def test_what_is_measured_when_the_store_fails_is_kept_and_can_be_imported(store, kind, monkeypatch):
    """The trials in flight come to their end, and no further one is begun."""

    class Breaking(kind):
        def execute(self, trials):
            for number, entry in enumerate(super().execute(trials)):
                if number == 4:
                    broken.setattr(store, "join", away)
                yield entry

    executor = Breaking("mine", 0)
    with monkeypatch.context() as broken, pytest.raises(DataError, match="import") as caught:
        run_sweep(TRIALS, executor, store)
    assert len(executor.given) < len(TRIALS)
    read = files.read_file(Path(str(caught.value).rpartition(" ")[2]))
    assert not read.refused
    store.append_all(read.measurements)
    assert set(store.summaries()) == {entry.trial_id for entry in executor.given}


def test_a_repeat_that_was_kept_in_a_file_comes_back_with_its_row(store, monkeypatch):
    twice = replace(TRIALS[0], plan={**TIME_BOX, "repeats": 2})
    first = measurement(trial=twice, started_at="first")
    store.append_all([first])

    with monkeypatch.context() as broken:
        broken.setattr(store, "join", away)
        with pytest.raises(DataError) as caught:
            run_sweep([twice], Slow("again"), store)
    read = files.read_file(Path(str(caught.value).rpartition(" ")[2]))
    assert store.append_all(read.measurements).replaced == 1
    (row,) = store.all()
    assert row.started_at == "first"
    assert [run["started_at"] for run in row.repeats] == ["again 1"]


def test_a_damaged_row_is_measured_again_only_when_asked(store):
    store.append_all([measurement(trial=entry) for entry in TRIALS[:2]])
    ruin = f"UPDATE measurements SET payload = '[' WHERE trial_id = '{TRIALS[0].trial_id}'"
    store.write(lambda connection: connection.exec_driver_sql(ruin))
    assert run_sweep(TRIALS[:2], Slow("mine"), store).measured == 0
    assert run_sweep(TRIALS[:2], Slow("mine"), store, again=RETRIED).measured == 1
    assert [row.trial for row in store.all()] == TRIALS[:2]


def test_a_lease_says_on_which_node_its_trial_was_placed(store):
    class Elsewhere(Slow):
        def execute(self, trials):
            for entry in trials:
                waiting = store.leases.held()[entry.trial_id].label
                forward(Event(at=1.0, level=20, event="placed", trial_id=entry.trial_id, node="gpu-7", pid=1))
                assert store.leases.held()[entry.trial_id].label == f"{waiting}, on gpu-7"
                yield measurement(trial=entry)

    assert run_sweep(TRIALS[:2], Elsewhere("mine"), store).measured == 2
    assert store.leases.held() == {}


def test_a_run_whose_trial_is_in_hand_is_not_told_as_anothers(store):
    thrice = replace(TRIALS[0], plan={**TIME_BOX, "repeats": 3})
    with collected() as expected:
        run_sweep([thrice], Ahead("mine"), store, poll_seconds=0.05)
    assert [row.repeats for row in store.all()] != [()]
    assert "left_to_another" not in {line["event"] for line in expected}


def test_a_spool_goes_where_there_is_room(tmp_path, monkeypatch):
    (tmp_path / "in the way").write_text("")
    monkeypatch.setattr(queue, "user_folder", lambda: tmp_path / "in the way" / "folder")
    monkeypatch.chdir(tmp_path)
    kept = queue.Spool()
    paths = {kept.keep(measurement(trial=entry)) for entry in TRIALS[:2]}
    assert [path.parent for path in paths] == [tmp_path]
    assert len(files.read_file(paths.pop()).measurements) == 2


def test_what_was_measured_when_somebody_stops_waiting_for_the_store_is_kept(store, tmp_path, monkeypatch):
    """Ctrl-C while a database that is away is waited for."""
    monkeypatch.setattr(queue, "user_folder", lambda: tmp_path)
    monkeypatch.setattr(store, "join", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt, match="advisor measurements import") as caught:
        run_sweep(TRIALS[:2], Slow("mine"), store)
    (row,) = files.read_file(Path(str(caught.value).rpartition(" ")[2])).measurements
    assert row.trial == TRIALS[0]


class Troubled:
    """Fails in another way at each beat, and works at last."""

    def __init__(self, *troubles):
        self._troubles, self.renewed, self.given_back = list(troubles), threading.Event(), []

    def renew(self, owner):
        if self._troubles:
            raise self._troubles.pop(0)
        self.renewed.set()

    def give_back(self, owner, trial_ids=None):
        self.given_back.append(owner)


def test_no_trouble_of_any_kind_ends_the_heartbeat():
    leases = Troubled(OSError("no file descriptor"), RuntimeError("a defect"))
    with collected() as expected, leasing(leases, heartbeat_seconds=0.01) as owner:
        assert leases.renewed.wait(timeout=30)
    assert leases.given_back == [owner]
    failed = [line["facts"]["reason"] for line in expected if line["event"] == "heartbeat_failed"]
    assert failed == ["no file descriptor", "a defect"]


_DRIVER = """
import json, sys
from contextlib import closing
from advisor.sweeps.run.runner import run_sweep
from advisor.store.measurements import SqlStore
from tests.sweeps.run.test_queue import TRIALS, Telling

url, name, seconds, options = sys.argv[1:]
with closing(SqlStore(url, **json.loads(options))) as store:
    run_sweep(TRIALS, Telling(name, float(seconds)), store, poll_seconds=0.05)
"""


def started(url, name, seconds=0.2, inside=(), **store):
    """A driver in a process of its own, with such a store; its name stands before the start of its rows."""
    command = [*inside, sys.executable, "-c", _DRIVER, str(url), name, str(seconds), json.dumps(store)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, cwd=Path(__file__).parents[3], **pipes)


def wait_for(store, count):
    deadline = time.monotonic() + 300
    while len(store.summaries()) < count:
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.kills
@pytest.mark.slow
def test_a_driver_killed_at_any_instant_loses_nothing_stored_and_holds_up_nobody(url, store):
    """Its leases end with it, on this machine at once."""
    kept = []
    for rank in range(4):
        with started(url, f"killed {rank}", 0.1) as driver:
            wait_for(store, len(kept) + 1)
            os.kill(driver.pid, signal.SIGKILL)
        rows = store.all()
        assert rows[: len(kept)] == kept
        kept = rows
    run_sweep(TRIALS, Slow("last", 0), store, poll_seconds=0.05)
    rows = store.all()
    assert rows[: len(kept)] == kept
    assert sorted(row.trial.trial_id for row in rows) == sorted(entry.trial_id for entry in TRIALS)
    assert all(not row.repeats and not row.attempts for row in rows)
