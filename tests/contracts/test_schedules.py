"""What the book of schedules promises, on each database for real: one daemon, each run once."""

import os
import secrets
import subprocess
import sys
import time
from contextlib import contextmanager, suppress

import pytest

from advisor.errors import UsageError
from advisor.store.records import Ending, Misfire, NewRun, RunState
from advisor.store.schedules import ScheduleBook
from advisor.sweeps.trial.ownership import this_process
from tests.advisor.store.schedules import NOW, schedule
from tests.together import all_at_once

HOUR = 3600.0

HOLDER = """
import sys, time
from advisor.store.schedules import ScheduleBook
from advisor.sweeps.trial.ownership import this_process
book, owner = ScheduleBook(sys.argv[1]), this_process()
lock = book.{taking}
print(bool(lock), flush=True)
time.sleep(600)
"""


@contextmanager
def held_elsewhere(url, taking):
    """A process that has that lock."""
    code = HOLDER.format(taking=taking)
    process = subprocess.Popen([sys.executable, "-c", code, url], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "True\n"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@contextmanager
def closing_lock(lock):
    assert lock is not None
    yield lock
    lock.release()


def soon(condition):
    """What it is once it is something: a server notices a killed client a moment later."""
    for _ in range(200):
        if outcome := condition():
            return outcome
        time.sleep(0.05)
    return condition()


class TestSchedules:
    @pytest.fixture
    def book(self, url):
        book = ScheduleBook(url)
        yield book
        book.close()

    @pytest.fixture
    def run(self, book):
        kept = book.add(schedule(), now=NOW)
        assert book.runs.claim(kept.number, NOW + HOUR, [NewRun(NOW + HOUR)])
        (result,) = book.runs.open()
        return result

    def test_a_schedule_comes_back_as_it_was_added(self, book):
        new = schedule(misfire=Misfire.SKIP, budget_usd=20.0, usd_per_hour=0.5, run_usd=5.0)
        kept = book.add(new, now=NOW)
        assert book.all() == [kept] == [book.named("weekly")]
        assert (kept.command, kept.budget_usd, kept.misfire) == (new.command, 20.0, Misfire.SKIP)
        assert kept.considered_until == NOW

    def test_of_many_that_add_one_name_at_once_one_is_kept(self, book):
        all_at_once(lambda: book.add(schedule(), now=NOW))
        assert len(book.all()) == 1

    def test_a_removed_schedule_leaves_its_name_and_skips_what_is_due(self, book, run):
        book.remove("weekly", now=NOW)
        assert book.all() == []
        assert book.runs.open() == []
        assert "removed" in book.runs.numbered(run.number).note
        assert book.add(schedule(cron="0 4 * * 1"), now=NOW).number != run.schedule

    def test_one_of_many_daemons_has_the_lock_and_the_next_one_gets_it_from_its_end_on(self, book):
        taken = all_at_once(lambda: book.lead(this_process()))
        (lock,) = [lock for lock in taken if lock is not None]
        assert lock.is_held()
        assert book.leader().pid == os.getpid()
        lock.release()
        assert book.leader() is None
        with closing_lock(book.lead(this_process())) as again:
            assert again.is_held()

    def test_the_lock_of_a_daemon_that_is_killed_is_free_at_once(self, book, url):
        with held_elsewhere(url, "lead(owner)") as daemon:
            assert book.lead(this_process()) is None
            assert book.leader().pid == daemon.pid
            daemon.kill()
            daemon.wait()
            with closing_lock(soon(lambda: book.lead(this_process()))):
                assert book.leader().pid == os.getpid()

    def test_a_run_of_a_process_that_is_killed_is_known_to_be_lost(self, book, url, run):
        begin = f"runs.begin({run.number}, owner, log='/log', now=0.0)"
        with held_elsewhere(url, begin) as process:
            assert book.runs.numbered(run.number).alive
            process.kill()
            process.wait()
            assert soon(lambda: not book.runs.numbered(run.number).alive)
            lost = book.runs.numbered(run.number)
            assert book.runs.take_back(lost, now=NOW) is RunState.DUE

    def test_a_due_time_has_one_row_however_often_it_is_claimed(self, book):
        kept = book.add(schedule(), now=NOW)
        for _ in range(3):
            assert book.runs.claim(kept.number, NOW + HOUR, [NewRun(NOW + HOUR)])
        assert book.runs.claim(kept.number, NOW + 2 * HOUR, [NewRun(NOW + HOUR), NewRun(NOW + 2 * HOUR)])
        assert [run.due_at for run in book.runs.open()] == [NOW + HOUR, NOW + 2 * HOUR]

    def test_of_many_processes_one_begins_a_run(self, book, run):
        locks = all_at_once(lambda: book.runs.begin(run.number, this_process(), log="/l", now=NOW))
        (lock,) = [lock for lock in locks if lock]
        with closing_lock(lock):
            assert book.runs.numbered(run.number).attempts == 1
            assert book.runs.numbered(run.number).alive

    def test_a_run_keeps_what_came_of_it_and_is_not_begun_again(self, book, run):
        owner = this_process()
        with closing_lock(book.runs.begin(run.number, owner, log="/log", now=NOW)):
            report = {"fit": {"kept": "new", "why": "better"}}
            ending = Ending(state=RunState.DONE, exit_code=0, cost_usd=1.5, trials=4, report=report)
            assert book.runs.end(run.number, owner, ending, now=NOW + 9)
            assert book.runs.end(run.number, owner, ending, now=NOW + 9)  # a lost answer
        ended = book.runs.numbered(run.number)
        assert (ended.state, ended.cost_usd, ended.trials) == (RunState.DONE, 1.5, 4)
        assert ended.report == report
        assert not book.runs.begin(run.number, this_process(), log="/log", now=NOW)
        assert book.runs.open() == []

    def test_a_run_whose_process_was_lost_is_gone_on_with_and_given_up_at_last(self, book, run):
        for attempt in (1, 2, 3):
            owner = this_process()
            book.runs.begin(run.number, owner, log="/log", now=NOW).release()
            (lost,) = book.runs.open()
            assert not lost.alive
            state = book.runs.take_back(lost, now=NOW)
            assert state is (RunState.DUE if attempt < 3 else RunState.FAILED)
        assert not book.runs.end(run.number, owner, Ending(state=RunState.DONE), now=NOW)
        assert "was lost" in book.runs.numbered(run.number).note

    def test_a_run_that_lives_is_not_taken_back(self, book, run):
        owner = this_process()
        with closing_lock(book.runs.begin(run.number, owner, log="/log", now=NOW)):
            (live,) = book.runs.open()
            assert book.runs.take_back(live, now=NOW) is None
            book.runs.note_cost(run.number, owner, 0.5)
        assert book.runs.numbered(run.number).cost_usd == 0.5

    def test_a_run_that_was_ended_politely_is_due_again_and_has_lost_no_attempt(self, book, run):
        owner = this_process()
        with closing_lock(book.runs.begin(run.number, owner, log="/log", now=NOW)):
            book.runs.hand_back(run.number, owner, "stopped", 0.25)
            book.runs.note_cost(run.number, owner, 0.5)  # is not its owner's any more
        (due,) = book.runs.open()
        assert (due.state, due.attempts, due.cost_usd) == (RunState.DUE, 0, 0.25)

    def test_started_sweeps_are_refused_side_by_side_by_who_looks_at_the_open_ones(self, book):
        def refuse(open_runs):
            if open_runs:
                raise UsageError("one runs")

        def start():
            name = f"20261122T000000-{secrets.token_hex(4)}"
            question = {"on": "here"}
            with suppress(UsageError):
                return book.runs.start(name, question, this_process(), now=NOW, log="/log", refuse=refuse)

        (run,) = [run for run in all_at_once(start) if run is not None]
        assert book.runs.sweeps() == [book.runs.sweep(run.sweep_id)] == [run]
        assert book.runs.open() == []  # no daemon begins it
        book.runs.note_stop(run.sweep_id, now=NOW + 1)
        book.runs.note_stop(run.sweep_id, now=NOW + 2)
        assert book.runs.numbered(run.number).stop_at == NOW + 1
        book.runs.forget([run.number])
        assert book.runs.sweeps() == []

    def test_runs_are_found_by_their_due_time(self, book):
        kept = book.add(schedule(), now=NOW)
        due = [NOW + HOUR * n for n in range(1, 6)]
        rows = [NewRun(entry, RunState.SKIPPED, "why") for entry in due]
        book.runs.claim(kept.number, due[-1], rows)
        assert [run.due_at for run in book.runs.latest(kept.number, 2)] == [due[4], due[3]]
        assert [run.due_at for run in book.runs.between(kept.number, due[1], due[3])] == due[1:3]


def test_reading_finds_no_schedules_where_there_is_no_database(tmp_path):
    book = ScheduleBook(f"sqlite:///{tmp_path}/none.sqlite", reading=True)
    assert book.all() == []
    with pytest.raises(UsageError, match="none was added"):
        book.named("weekly")
    assert list(tmp_path.iterdir()) == []
    book.close()


def test_a_file_that_was_replaced_is_opened_anew(tmp_path):
    file = tmp_path / "schedules.sqlite"
    book = ScheduleBook(f"sqlite:///{file}")
    book.add(schedule(), now=NOW)
    assert not book.reopen_replaced()
    for path in tmp_path.glob("schedules.sqlite*"):
        path.unlink()
    other = ScheduleBook(f"sqlite:///{file}")
    kept = other.add(schedule("another"), now=NOW)
    assert book.reopen_replaced()
    assert book.all() == [kept]
    for path in (book, other):
        path.close()
