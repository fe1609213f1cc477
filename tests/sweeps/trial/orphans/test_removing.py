"""What a kill -9 left is found by its names and removed, and nothing else is touched."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from advisor.errors import MeasuringError
from advisor.sweeps.machine.processes import is_running, start_ticks
from advisor.sweeps.trial.orphans import folders, removing
from advisor.sweeps.trial.orphans.folders import unfinished_name
from advisor.sweeps.trial.orphans.orphan import Orphan
from advisor.sweeps.trial.orphans.removing import clean_up, find_orphans, give_back_own, remove
from advisor.sweeps.trial.ownership import OWNER_VARIABLE, OwnerTag, new_name, own_tag, tag_in
from tests.processes import gone

GONE = OwnerTag(999_999_999, "1", own_tag().place)
ELSEWHERE = OwnerTag(999_999_999, "1", "0123456789")
MAY_MOUNT = os.geteuid() == 0 and shutil.which("losetup") and Path("/dev/loop-control").exists()


@pytest.fixture
def scratch(tmp_path, monkeypatch):
    """A temporary folder of our own, so that no test removes what others left in the real one."""
    monkeypatch.setattr(folders, "scratch_parent", lambda: tmp_path)
    return tmp_path


def of_test(*owners):
    """Only what the test made: the machine may have other leftovers."""
    return [one for one in find_orphans() if one.owner in owners]


def test_folders_of_the_gone_are_removed_and_all_others_stay(scratch):
    stay = [new_name(), f"{ELSEWHERE}-1-0", "advisor-of-somebody", "else"]
    for name in (*stay, f"{GONE}-1-0", f"{GONE}-1-1"):
        (scratch / name / "inside").mkdir(parents=True)
    found = of_test(GONE)
    assert [Path(one.name).name for one in found] == [f"{GONE}-1-0", f"{GONE}-1-1"]
    assert not remove(found).stuck
    assert sorted(path.name for path in scratch.iterdir()) == sorted(stay)
    assert not remove(found).stuck  # again: there is nothing to do


def test_what_was_left_before_the_machine_started_anew_is_removed(scratch):
    """Another boot is another place; in the machine's own temporary folder its owner has gone."""
    old = scratch / f"{ELSEWHERE}-1-0"
    old.mkdir()
    os.utime(old, (0, 0))
    assert [one.name for one in of_test(ELSEWHERE)] == [str(old)]


def test_a_link_is_removed_and_not_followed(scratch):
    (scratch / "mine").mkdir()
    (scratch / f"{GONE}-1-0").symlink_to(scratch / "mine")
    remove(of_test(GONE))
    assert [path.name for path in scratch.iterdir()] == ["mine"]


def test_half_made_data_sets_of_the_gone_are_removed(scratch, tmp_path):
    made_in = tmp_path / "datasets"
    kept = unfinished_name(made_in / "photographs-8")
    left = made_in / f"photographs-8.unfinished-{GONE}-1-0"
    for folder in (kept, left, made_in / "photographs-8"):
        folder.mkdir(parents=True)
    remove([one for one in find_orphans(made_in=made_in) if one.owner == GONE])
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


def test_processes_that_outlived_their_owner_are_ended_and_those_of_the_living_are_not():
    mine = {**os.environ, OWNER_VARIABLE: str(own_tag())}
    kept = subprocess.Popen(["sleep", "600"], env=mine)
    killed = subprocess.run([sys.executable, "-c", ORPHAN], capture_output=True, text=True)
    pid, name = killed.stdout.split()
    found = of_test(tag_in(name))
    assert [(one.kind, one.name) for one in found] == [("process", f"{pid} (sleep)")]
    assert not remove(found).stuck
    assert gone(int(pid))
    assert kept.poll() is None
    kept.kill()
    kept.wait()


def test_what_this_process_still_has_is_given_back(scratch):
    """Wherever a sweep is interrupted: between taking and noting, too."""
    (scratch / new_name()).mkdir()
    child = subprocess.Popen(["sleep", "600"], env={**os.environ, OWNER_VARIABLE: str(own_tag())})
    assert give_back_own() >= 2
    assert child.wait() == -9
    assert list(scratch.iterdir()) == []


def refused():
    raise PermissionError(1, "Operation not permitted")


def test_what_cannot_be_removed_is_told_with_the_command_and_holds_up_nothing(monkeypatch, caplog, scratch):
    (scratch / f"{GONE}-1-0").mkdir()
    bad = Orphan(kind="cgroup", name="/g", owner=GONE, command="rmdir '/g'", remove=refused)
    good = of_test(GONE)
    monkeypatch.setattr(removing, "find_orphans", lambda: [bad, *good])
    assert clean_up() == 1
    assert "cgroup /g of a killed sweep cannot be removed (Operation not permitted)" in caplog.text
    assert "rmdir '/g'" in caplog.text


@pytest.mark.root
@pytest.mark.skipif(not MAY_MOUNT, reason="needs root and loop devices")
def test_mounts_and_loop_devices_go_before_their_folders(scratch):
    """And what is on a mounted disk is never removed with the folder that it is mounted in."""
    folder = scratch / f"{GONE}-1-0"
    mount = folder / "disk"
    mount.mkdir(parents=True)
    image = folder / "image"
    with image.open("wb") as file:
        file.truncate(8 * 2**20)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-O", "^has_journal", image], check=True)
    subprocess.run(["mount", "-o", "loop", image, mount], check=True)
    (mount / "precious").write_text("")
    found = of_test(GONE)
    assert [one.kind for one in found] == ["mount", "loop device", "folder"]
    with pytest.raises(MeasuringError, match="still mounted"):
        found[-1].remove()
    assert (mount / "precious").exists()
    assert not remove(found).stuck
    assert not folder.exists()
    assert of_test(GONE) == []


def test_the_process_that_asks_is_never_its_own_leftover(monkeypatch):
    assert str(os.getpid()) not in {one.name.split()[0] for one in find_orphans(lambda _: True)}
    assert is_running(os.getpid(), start_ticks(os.getpid()))
