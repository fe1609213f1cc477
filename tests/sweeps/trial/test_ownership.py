"""What a kill -9 left is found by its names and removed, and nothing else is touched."""

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some
from msgspec.structs import replace

from advisor.errors import MeasuringError
from advisor.sweeps.machine.processes import is_running, start_ticks
from advisor.sweeps.trial import ownership as module
from advisor.sweeps.trial.ownership import OWNER_VARIABLE, OwnerTag, new_name, own_tag, tag_in
from tests.processes import gone

GONE = OwnerTag(999_999_999, "1", own_tag().place)
ELSEWHERE = OwnerTag(999_999_999, "1", "0123456789")


@pytest.fixture
def scratch(tmp_path, monkeypatch):
    """A temporary folder of our own, so that no test removes what others left in the real one."""
    monkeypatch.setattr(module, "scratch_parent", lambda: tmp_path)
    return tmp_path


def of_test(*owners):
    """Only what the test made: the machine may have other leftovers."""
    return [find_orphan for find_orphan in module.find_orphans() if find_orphan.owner in owners]


def test_folders_and_half_made_data_sets_of_the_gone_are_removed_and_all_others_stay(scratch, tmp_path):
    stay = [new_name(), f"{ELSEWHERE}-1-0", "advisor-of-somebody", "else"]
    for name in (*stay, f"{GONE}-1-0", f"{GONE}-1-1"):
        (scratch / name / "inside").mkdir(parents=True)
    (scratch / f"{GONE}-1-2").symlink_to(scratch / "else")
    result = of_test(GONE, ELSEWHERE)
    names = [f"{GONE}-1-0", f"{GONE}-1-1", f"{GONE}-1-2"]
    assert [Path(entry.name).name for entry in result if entry.owner == GONE] == names
    assert not module.remove(result).stuck
    assert (scratch / "else" / "inside").exists()
    assert sorted(path.name for path in scratch.iterdir()) == sorted(stay)
    assert not module.remove(result).stuck  # again: there is nothing to do
    made_in = tmp_path / "datasets"
    kept = module.unfinished_name(made_in / "photographs-8")
    left = made_in / f"photographs-8.unfinished-{GONE}-1-0"
    for folder in (kept, left, made_in / "photographs-8"):
        folder.mkdir(parents=True)
    module.remove(
        [find_orphan for find_orphan in module.find_orphans(made_in=made_in) if find_orphan.owner == GONE]
    )
    assert sorted(made_in.iterdir()) == sorted([kept, made_in / "photographs-8"])


ORPHAN = """
import os, subprocess, sys
from advisor.sweeps.trial.ownership import OWNER_VARIABLE, own_tag
child = subprocess.Popen(
    ["sleep", "600"], env={**os.environ, OWNER_VARIABLE: str(own_tag())},
    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
)
print(child.pid, own_tag(), flush=True)
os.kill(os.getpid(), 9)
"""


def test_processes_that_outlived_their_owner_are_ended_and_neither_the_livings_nor_the_askers():
    mine = {**os.environ, OWNER_VARIABLE: str(own_tag())}
    kept = subprocess.Popen(["sleep", "600"], env=mine)
    killed = subprocess.run([sys.executable, "-c", ORPHAN], capture_output=True, text=True)
    pid, name = killed.stdout.split()
    result = of_test(tag_in(name))
    assert [(entry.kind, entry.name) for entry in result] == [("process", f"{pid} (sleep)")]
    assert not module.remove(result).stuck
    assert gone(int(pid))
    assert kept.poll() is None
    kept.kill()
    kept.wait()
    assert str(os.getpid()) not in {
        find_orphan.name.split()[0] for find_orphan in module.find_orphans(lambda _: True)
    }
    assert is_running(os.getpid(), start_ticks(os.getpid()))


def test_what_this_process_still_has_is_given_back(scratch):
    """Wherever a sweep is interrupted: between taking and noting, too."""
    (scratch / new_name()).mkdir()
    child = subprocess.Popen(["sleep", "600"], env={**os.environ, OWNER_VARIABLE: str(own_tag())})
    assert module.give_back_own() >= 2
    assert child.wait() == -9
    assert list(scratch.iterdir()) == []


def refused():
    raise PermissionError(1, "Operation not permitted")


def test_what_cannot_be_removed_is_told_with_the_command_and_holds_up_nothing(monkeypatch, caplog, scratch):
    (scratch / f"{GONE}-1-0").mkdir()
    bad = module.Orphan(kind="cgroup", name="/g", owner=GONE, command="rmdir '/g'", remove=refused)
    good = of_test(GONE)
    monkeypatch.setattr(module, "find_orphans", lambda: [bad, *good])
    assert module.clean_up() == 1
    assert "cgroup /g of a killed sweep cannot be removed (Operation not permitted)" in caplog.text
    assert "rmdir '/g'" in caplog.text


@pytest.mark.root
def test_what_is_on_a_mounted_disk_is_never_removed_with_the_folder_that_it_is_mounted_in(scratch):
    mount = scratch / f"{GONE}-1-0" / "disk"
    mount.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", mount], check=True)
    (mount / "precious").write_text("")
    (left,) = of_test(GONE)
    with pytest.raises(MeasuringError, match="still mounted"):
        left.remove()
    assert (mount / "precious").exists()
    subprocess.run(["umount", mount], check=True)
    assert not module.remove([left]).stuck


# What a sweep starts is its own while it runs; Ray does not take its signals away.


def test_what_is_started_inside_carries_the_mark_and_everything_is_given_back_however_it_ends(monkeypatch):
    monkeypatch.delenv(OWNER_VARIABLE, raising=False)
    with module.owning():
        assert os.environ[OWNER_VARIABLE] == str(own_tag())
    assert OWNER_VARIABLE not in os.environ
    given = []
    monkeypatch.setattr(module, "give_back_own", lambda: given.append(1))
    with pytest.raises(KeyboardInterrupt), module.owning():
        raise KeyboardInterrupt
    assert given == [1]


@contextmanager
def handler(number, answer):
    before = signal.signal(number, answer)
    try:
        yield
    finally:
        signal.signal(number, before)


def takes_over(*_):
    raise SystemExit("a library's own way out")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_waits_for_the_end_of_the_block_and_is_then_ours(number):
    request, log = [], []
    with handler(number, lambda *_: request.append(number)):
        with module.deferred_signals():
            signal.signal(number, takes_over)
            os.kill(os.getpid(), number)
            log.append(list(request))
        assert (log, request) == ([[]], [number])
        os.kill(os.getpid(), number)
        assert request == [number, number]


def test_a_second_signal_does_not_wait():
    def stop(*_):
        raise KeyboardInterrupt

    def asked_twice():
        with module.deferred_signals():
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGTERM)
            pytest.fail("went on")

    with handler(signal.SIGTERM, stop):
        with pytest.raises(KeyboardInterrupt):
            asked_twice()
        assert signal.getsignal(signal.SIGTERM) is stop


# Names tell whose something is: never a reused pid's, never another container's.


def test_a_name_tells_whose_it_is_and_whether_that_has_gone(monkeypatch):
    first, second = new_name(), new_name()
    assert first != second
    assert tag_in(first) == tag_in(second) == own_tag()
    assert own_tag().pid == os.getpid()
    assert not own_tag().has_gone
    assert replace(own_tag(), started=str(int(own_tag().started) + 1)).has_gone  # the pid was taken over
    other = replace(own_tag(), pid=999_999_999, place="0123456789")
    assert other.is_elsewhere
    assert not other.has_gone
    assert replace(other, place=own_tag().place).has_gone
    process = subprocess.Popen(["sleep", "60"])
    mark = replace(own_tag(), pid=process.pid, started=start_ticks(process.pid))
    assert not mark.has_gone
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert mark.has_gone
    process.wait()
    assert mark.has_gone
    parent = OwnerTag(os.getppid(), start_ticks(os.getppid()), own_tag().place)
    monkeypatch.setenv(OWNER_VARIABLE, str(parent))
    assert own_tag() == parent
    monkeypatch.setenv(OWNER_VARIABLE, str(replace(parent, pid=999_999_999)))
    assert own_tag().pid == os.getpid()


@given(some.integers(1, 2**22), some.integers(0, 10**12), some.integers(0, 2**32 - 1))
def test_what_is_written_into_a_name_is_read_out_of_it(pid, started, path):
    mark = OwnerTag(pid, str(started), f"{path:010d}")
    assert tag_in(str(mark)) == tag_in(f"{mark}-7-0") == mark


@pytest.mark.parametrize(
    "name", ["somebody-else", "advisor-", "advisor-c9abw5ra", "advisor-1-2-x", "xadvisor-1-2-3", ""]
)
def test_other_names_have_no_owner(name):
    assert tag_in(name) is None
