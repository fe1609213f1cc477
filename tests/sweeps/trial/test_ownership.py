"""Names tell whose something is: never a reused pid's, never another container's."""

import os
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as some
from msgspec.structs import replace

from advisor.sweeps.machine.processes import start_ticks
from advisor.sweeps.trial.ownership import OWNER_VARIABLE, OwnerTag, new_name, own_tag, tag_in


def test_a_name_of_ours_names_us_and_no_two_are_the_same():
    first, second = new_name(), new_name()
    assert first != second
    assert tag_in(first) == tag_in(second) == own_tag()
    assert own_tag().pid == os.getpid()
    assert not own_tag().has_gone


@given(some.integers(1, 2**22), some.integers(0, 10**12), some.integers(0, 2**32 - 1))
def test_what_is_written_into_a_name_is_read_out_of_it(pid, started, place):
    mark = OwnerTag(pid, str(started), f"{place:010d}")
    assert tag_in(str(mark)) == tag_in(f"{mark}-7-0") == mark


@pytest.mark.parametrize(
    "name", ["somebody-else", "advisor-", "advisor-c9abw5ra", "advisor-1-2-x", "xadvisor-1-2-3", ""]
)
def test_other_names_have_no_owner(name):
    assert tag_in(name) is None


def test_a_process_that_took_over_the_pid_is_not_the_owner():
    mine = own_tag()
    assert replace(mine, started=str(int(mine.started) + 1)).has_gone


def test_of_another_container_or_machine_nothing_is_known():
    other = replace(own_tag(), pid=999_999_999, place="0123456789")
    assert other.is_elsewhere
    assert not other.has_gone
    assert replace(other, place=own_tag().place).has_gone


def test_a_process_that_nobody_has_collected_yet_has_gone():
    process = subprocess.Popen(["sleep", "60"])
    mark = replace(own_tag(), pid=process.pid, started=start_ticks(process.pid))
    assert not mark.has_gone
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert mark.has_gone
    process.wait()
    assert mark.has_gone


def test_what_works_for_another_process_marks_in_its_name(monkeypatch):
    parent = OwnerTag(os.getppid(), start_ticks(os.getppid()), own_tag().place)
    monkeypatch.setenv(OWNER_VARIABLE, str(parent))
    assert own_tag() == parent
    monkeypatch.setenv(OWNER_VARIABLE, str(replace(parent, pid=999_999_999)))
    assert own_tag().pid == os.getpid()
