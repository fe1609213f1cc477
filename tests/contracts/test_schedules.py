"""What the book of schedules promises, on each database for real: one leader, each run once."""

import dataclasses
import threading

import pytest

from advisor.errors import UsageError
from advisor.runs.store.records import Ending, Misfire, NewRun, NewSchedule, RunState
from advisor.runs.store.schedules import ScheduleBook
from sweeps.store.owners import this_process

NOW = 1_790_000_000.0
HOUR = 3600.0


def wanted(name="weekly", **changes):
    values = {
        "name": name, "cron": "0 3 * * 1", "timezone": "Europe/Berlin",
        "command": ("sweep", "run", "--preset", "small"), "folder": "/home",
    }  # fmt: skip
    return NewSchedule(**{**values, **changes})


def elsewhere(owner):
    """An owner on another machine: nobody here can tell whether it still runs."""
    return dataclasses.replace(owner, name=f"elsewhere {owner.name}", host="far", place="other")


def gone(owner):
    """An owner on this machine whose process has ended."""
    return dataclasses.replace(owner, name=f"gone {owner.name}", started="1")


def all_at_once(work, count=8):
    """What each of so many threads got."""
    got, together = [], threading.Barrier(count)

    def one():
        together.wait()
        got.append(work())

    threads = [threading.Thread(target=one) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return got


class ScheduleContract:
    @pytest.fixture
    def url(self):
        raise NotImplementedError

    @pytest.fixture
    def book(self, url):
        book = ScheduleBook(url, leader_seconds=30.0, run_seconds=30.0)
        yield book
        book.close()

    @pytest.fixture
    def fence(self, book):
        return book.leadership.take(this_process())

    @pytest.fixture
    def run(self, book, fence):
        """A run that is due."""
        kept = book.add(wanted(), now=NOW)
        assert book.runs.claim(fence, kept.number, NOW + HOUR, [NewRun(NOW + HOUR)])
        (found,) = book.runs.open()
        return found

    def test_a_schedule_comes_back_as_it_was_added(self, book):
        new = wanted(misfire=Misfire.SKIP, budget_usd=20.0, usd_per_hour=0.5, run_usd=5.0)
        kept = book.add(new, now=NOW)
        assert book.all() == [kept] == [book.named("weekly")]
        assert kept.command == new.command
        assert (kept.budget_usd, kept.misfire) == (20.0, Misfire.SKIP)
        assert kept.considered_until == NOW

    def test_the_same_schedule_again_is_there_already_and_another_one_is_refused(self, book):
        kept = book.add(wanted(), now=NOW)
        assert book.add(wanted(), now=NOW + 9) == kept
        with pytest.raises(UsageError, match="a schedule 'weekly' already"):
            book.add(wanted(cron="0 4 * * 1"), now=NOW)

    def test_of_many_that_add_one_name_at_once_one_is_kept(self, book):
        all_at_once(lambda: book.add(wanted(), now=NOW))
        assert len(book.all()) == 1

    def test_a_removed_schedule_leaves_its_name_and_skips_what_is_due(self, book, run):
        book.remove("weekly", now=NOW)
        assert book.all() == []
        assert book.runs.open() == []
        assert "removed" in book.runs.one(run.number).note
        assert book.add(wanted(cron="0 4 * * 1"), now=NOW).number != run.schedule

    def test_an_unknown_name_gets_the_nearest(self, book):
        book.add(wanted(), now=NOW)
        with pytest.raises(UsageError, match="did you mean weekly"):
            book.named("weakly")

    def test_one_of_many_daemons_leads(self, book):
        owners = [elsewhere(this_process()) for _ in range(8)]
        waiting = iter(owners)
        got = all_at_once(lambda: book.leadership.take(next(waiting)))
        assert len([fence for fence in got if fence is not None]) == 1

    def test_the_next_leader_has_a_higher_fence_and_the_old_one_decides_nothing(self, book):
        kept = book.add(wanted(), now=NOW)
        old = gone(this_process())
        first = book.leadership.take(old)
        second = book.leadership.take(this_process())
        assert second > first
        assert not book.leadership.renew(old, first)
        assert not book.runs.claim(first, kept.number, NOW + HOUR, [NewRun(NOW + HOUR)])
        assert book.runs.open() == []

    def test_a_leader_of_elsewhere_is_waited_for_until_its_lease_ends(self, url):
        book = ScheduleBook(url, leader_seconds=0.0)
        far = elsewhere(this_process())
        assert book.leadership.take(far) is not None
        assert book.daemon.current() is None
        assert book.leadership.take(this_process()) is not None
        book.close()

    def test_a_leader_that_resigns_is_followed_at_once(self, book):
        first, second = elsewhere(this_process()), elsewhere(this_process())
        book.leadership.take(first)
        assert book.leadership.take(second) is None
        book.leadership.resign(first)
        assert book.leadership.take(second) is not None
        assert book.daemon.current().host == "far"

    def test_a_due_time_has_one_row_however_often_it_is_claimed(self, book, fence):
        kept = book.add(wanted(), now=NOW)
        for _ in range(3):
            assert book.runs.claim(fence, kept.number, NOW + HOUR, [NewRun(NOW + HOUR)])
        assert book.runs.claim(
            fence, kept.number, NOW + 2 * HOUR, [NewRun(NOW + HOUR), NewRun(NOW + 2 * HOUR)]
        )
        assert [run.due_at for run in book.runs.open()] == [NOW + HOUR, NOW + 2 * HOUR]

    def test_of_many_processes_one_begins_a_run(self, book, run):
        got = all_at_once(lambda: book.runs.begin(run.number, this_process(), log="/log", now=NOW))
        assert sorted(got) == [False] * 7 + [True]
        assert book.runs.one(run.number).attempts == 1
        assert book.runs.one(run.number).alive

    def test_a_run_keeps_what_came_of_it_and_is_not_begun_again(self, book, run):
        owner = this_process()
        book.runs.begin(run.number, owner, log="/log", now=NOW)
        report = {"fit": {"kept": "new", "why": "better"}}
        ending = Ending(state=RunState.DONE, exit_code=0, cost_usd=1.5, trials=4, report=report)
        assert book.runs.end(run.number, owner, ending, now=NOW + 9)
        assert book.runs.end(run.number, owner, ending, now=NOW + 9)  # an answer that was lost
        found = book.runs.one(run.number)
        assert (found.state, found.cost_usd, found.trials) == (RunState.DONE, 1.5, 4)
        assert found.report == report
        assert not book.runs.begin(run.number, this_process(), log="/log", now=NOW)
        assert book.runs.open() == []

    def test_a_run_whose_process_was_lost_is_gone_on_with_and_given_up_at_last(
        self, book, run, fence
    ):
        for attempt in (1, 2, 3):
            lost = gone(this_process())
            assert book.runs.begin(run.number, lost, log="/log", now=NOW)
            (found,) = book.runs.open()
            assert not found.alive
            state = book.runs.take_back(fence, found, now=NOW)
            assert state is (RunState.DUE if attempt < 3 else RunState.FAILED)
        assert not book.runs.end(run.number, lost, Ending(state=RunState.DONE), now=NOW)
        assert "was lost" in book.runs.one(run.number).note

    def test_a_run_that_lives_is_not_taken_back(self, book, run, fence):
        owner = this_process()
        book.runs.begin(run.number, owner, log="/log", now=NOW)
        (found,) = book.runs.open()
        assert book.runs.take_back(fence, found, now=NOW) is None
        assert book.runs.beat(run.number, owner, 0.5)
        assert book.runs.one(run.number).cost_usd == 0.5

    def test_a_run_that_was_ended_politely_is_due_again_and_has_lost_no_attempt(self, book, run):
        owner = this_process()
        book.runs.begin(run.number, owner, log="/log", now=NOW)
        book.runs.hand_back(run.number, owner, "stopped", 0.25)
        (found,) = book.runs.open()
        assert (found.state, found.attempts, found.cost_usd) == (RunState.DUE, 0, 0.25)
        assert not book.runs.beat(run.number, owner, 0.5)

    def test_runs_are_found_by_their_due_time(self, book, fence):
        kept = book.add(wanted(), now=NOW)
        due = [NOW + HOUR * n for n in range(1, 6)]
        rows = [NewRun(one, RunState.SKIPPED, "why") for one in due]
        book.runs.claim(fence, kept.number, due[-1], rows)
        assert [run.due_at for run in book.runs.of(kept.number, 2)] == [due[4], due[3]]
        assert [run.due_at for run in book.runs.between(kept.number, due[1], due[3])] == due[1:3]


class TestSqliteFile(ScheduleContract):
    @pytest.fixture
    def url(self, tmp_path):
        return f"sqlite:///{tmp_path}/schedules.sqlite"


class TestPostgreSQL(ScheduleContract):
    @pytest.fixture
    def url(self, postgresql):
        return postgresql.new_database()


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
    book.add(wanted(), now=NOW)
    assert not book.reopen_replaced()
    for one in tmp_path.glob("schedules.sqlite*"):
        one.unlink()
    other = ScheduleBook(f"sqlite:///{file}")
    kept = other.add(wanted("another"), now=NOW)
    assert book.reopen_replaced()
    assert book.all() == [kept]
    for one in (book, other):
        one.close()
