"""A probe runs its parts in order, and what goes wrong in one is that one's reason."""

import errno
import os
import random
import subprocess
import sys
import time
import types
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.errors import MeasuringError
from advisor.sweeps.datasets.making import make_sample
from advisor.sweeps.machine.environment import mount_of, parse_mountinfo
from advisor.sweeps.probe import disk, gpu, host, session
from advisor.sweeps.probe.disk import Opened, Pattern, opened_past_cache, scratch_file, timed_read
from advisor.sweeps.probe.host import decode_image
from advisor.sweeps.probe.session import QUICK, ProbeSession, run_probe
from tests.rows import table


@pytest.fixture
def parts(monkeypatch):
    def install(**probes):
        module = types.SimpleNamespace(**{f"probe_{name}": probe for name, probe in probes.items()})
        for name in probes:
            file = session._MODULES.get(name, name)
            monkeypatch.setitem(sys.modules, f"advisor.sweeps.probe.{file}", module)

    return install


def test_parts_run_in_the_order_of_measuring_and_a_failing_one_costs_no_other(parts, tmp_path):
    parts(cpu=lambda _: {"a": 1}, gpu=lambda _: {"b": 2})
    lines = []
    document = run_probe(["gpu", "cpu"], quick=True, disk=tmp_path, report=lines.append)
    assert list(document["parts"]) == ["cpu", "gpu"]
    assert [line.split(":")[0] for line in lines] == ["[1/2] cpu", "[2/2] gpu"]
    assert (document["quick"], document["parts"]["cpu"]["a"]) == (True, 1)
    illegal = Mock(side_effect=RuntimeError("CUDA error:\n an illegal access"))
    parts(cpu=illegal, gpu=Mock(side_effect=MeasuringError("no GPU here")), ram=lambda _: {"fine": True})
    document = run_probe(["cpu", "ram", "gpu"], quick=True, disk=tmp_path, report=lambda _: None)
    assert document["parts"]["cpu"] == {"skipped": "RuntimeError: CUDA error: an illegal access"}
    assert document["parts"]["gpu"] == {"skipped": "no GPU here"}
    assert document["parts"]["ram"]["fine"] is True


def test_a_busy_neighbour_is_told(parts, tmp_path, monkeypatch):
    moments = iter([0.0, 10.0])
    monkeypatch.setattr(session, "_others_seconds", lambda: next(moments))
    monkeypatch.setattr(session, "_SHORTEST_JUDGED_SECONDS", 0.0)
    parts(cpu=lambda _: {})
    document = run_probe(["cpu"], quick=True, disk=tmp_path, report=lambda _: None)
    assert "other processes used" in document["warnings"][0]
    assert document["parts"]["cpu"]["other_cores"] > 1


def _session(tmp_path, ends_in):
    ends_at = time.monotonic() + ends_in
    return ProbeSession(budget=QUICK, disk=tmp_path, report=lambda _: None, ends_at=ends_at)


def test_past_the_total_time_nothing_new_begins(tmp_path):
    assert "time was used up" in _session(tmp_path, -1.0).attempt(lambda: {"x": 1})["skipped"]
    assert _session(tmp_path, 60.0).attempt(lambda: {"x": 1}) == {"x": 1}
    with pytest.raises(KeyboardInterrupt):
        _session(tmp_path, 60.0).attempt(Mock(side_effect=KeyboardInterrupt))


# Decoding is the real thing, and what a second thread adds is told only where there is one.


def test_a_photograph_becomes_a_square_of_pixels():
    pixels = decode_image(make_sample(random.Random(1)), random.Random(2))
    assert pixels.shape == (224, 224, 3)
    assert pixels.dtype == np.uint8
    assert pixels.std() > 5


def test_the_yield_of_the_second_threads_is_their_share_more():
    result = host._hyperthread_yield({4: [100.0] * 5, 8: [130.0] * 5}, 4, 8)
    assert result["value"] == pytest.approx(0.3)
    assert "one hardware thread" in host._hyperthread_yield({2: [1.0]}, 2, 2)["skipped"]


@pytest.mark.slow
def test_real_processes_decode_and_are_gone(tmp_path):
    import multiprocessing

    part = host.probe_decode(_session(tmp_path, 60.0))
    rates = {int(count): thread["value"] for count, thread in part["threads"].items()}
    assert min(rates.values()) > 1
    assert min(rates) == 1
    assert multiprocessing.active_children() == []


# Reads go past the page cache where they can, and the file they read has no name.

MIB = 2**20
ANYWHERE = Pattern(block_bytes=4096, depth=4, at_random=True)


@pytest.fixture
def written(tmp_path):
    with scratch_file(tmp_path, 16 * MIB, 60.0) as made:
        yield made


def test_the_scratch_file_never_has_a_name_and_holds_random_bytes(tmp_path):
    with scratch_file(tmp_path, 17 * MIB, 60.0) as (descriptor, size):
        assert list(tmp_path.iterdir()) == []
        assert size == 16 * MIB  # whole blocks
        assert os.fstat(descriptor).st_size == size
        first, other = os.pread(descriptor, 4096, 0), os.pread(descriptor, 4096, 8 * MIB)
        assert first != other
        assert len(set(first)) > 200


def test_a_place_that_cannot_be_written_or_has_too_little_room_is_told(tmp_path, monkeypatch):
    with (
        pytest.raises(MeasuringError, match=r"cannot write to '/proc'|only 0 MiB"),
        scratch_file(Path("/proc"), 16 * MIB, 1.0),
    ):
        pass

    monkeypatch.setattr(disk.os, "write", Mock(side_effect=OSError(errno.EDQUOT, "Disk quota exceeded")))
    with pytest.raises(MeasuringError, match="ran out of space"), scratch_file(tmp_path, 16 * MIB, 1.0):
        pass
    full = types.SimpleNamespace(f_bavail=8, f_frsize=MIB)
    monkeypatch.setattr(disk.os, "statvfs", lambda _: full)
    with pytest.raises(MeasuringError, match="only 8 MiB are free"), scratch_file(tmp_path, 16 * MIB, 1.0):
        pass


def test_reads_are_counted_with_a_latency_each_and_rates_latencies_and_iops_belong_together(
    written, tmp_path
):
    with opened_past_cache(*written) as file:
        window = timed_read(file, ANYWHERE, 0.02)
    assert len(window.latencies) >= ANYWHERE.depth
    assert min(window.latencies) > 0
    assert window.reads_per_second == len(window.latencies) / window.wall_seconds
    windows = [disk.TimedRead(wall_seconds=2.0, processor_seconds=0.1, latencies=(0.01,) * 200)] * 5
    pattern = Pattern(block_bytes=128 * 1024, depth=1, at_random=True)
    result = disk._figures(windows, pattern, "a test")
    assert result["iops"]["value"] == 100.0
    assert result["rate"]["value"] == 12.5
    assert result["latency_median"]["value"] == pytest.approx(10_000)
    assert not result["limited_by_own_cpu"]


def test_reading_in_order_takes_each_block_once_whatever_the_depth(written, monkeypatch):
    offsets = []
    read = os.preadv

    def recording(descriptor, buffers, offset):
        offsets.append(offset)
        return read(descriptor, buffers, offset)

    with opened_past_cache(*written) as file:
        monkeypatch.setattr(disk.os, "preadv", recording)
        timed_read(file, Pattern(block_bytes=MIB, depth=4, at_random=False), 0.005)
    seen = offsets[:16]
    assert len(set(seen)) == len(seen)
    assert all(offset % MIB == 0 and offset < written[1] for offset in offsets)


def test_where_o_direct_is_refused_reads_are_buffered_and_say_so(written, monkeypatch):
    really_open = os.open

    def refuse(path, flags, *more):
        if flags & os.O_DIRECT:
            raise OSError(errno.EINVAL, "Invalid argument")
        return really_open(path, flags, *more)

    monkeypatch.setattr(disk.os, "open", refuse)
    with opened_past_cache(*written) as file:
        assert not file.direct
        assert timed_read(file, ANYWHERE, 0.01).latencies


def test_a_read_that_ends_short_is_an_error(tmp_path):
    path = tmp_path / "short"
    path.write_bytes(bytes(5000))
    with path.open("rb") as handle:
        file = Opened(descriptor=handle.fileno(), size_bytes=2 * 4096, direct=False)
        with pytest.raises(OSError, match="a read ended after"):
            timed_read(file, Pattern(block_bytes=4096, depth=1, at_random=False), 0.05)


def test_memory_does_not_pass_for_a_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(disk, "describe_disk", lambda path: {"path": path, "file_system": "tmpfs"})
    monkeypatch.setattr(disk, "_measured", lambda *_: {})
    session = _session(tmp_path, 60.0)
    part = disk.probe_disk(session)
    assert part["past_page_cache"] is False
    assert "memory was measured" in session.warnings[0]


# The kernel's and lspci's text, parsed.


TABLES = table("sweeps")
LSPCI, MOUNTINFO = (f"{chr(10).join(TABLES[name])}\n" for name in ("lspci", "mountinfo"))


def test_the_memory_of_a_numa_node_is_its_total(tmp_path):
    node = tmp_path / "node0"
    node.mkdir()
    (node / "cpulist").write_text("0-3\n")
    (node / "meminfo").write_text("\n".join(TABLES["node_meminfo"]))
    assert host.read_numa_nodes(tmp_path) == [{"node": 0, "cpus": "0-3", "memory_mib": 198109248 / 1024}]


@given(st.dictionaries(st.integers(0, 63), st.integers(0, 15), min_size=1))
def test_every_core_gets_a_thread_before_any_gets_two(cores):
    ordered = host.threads_first_by_core(cores)
    assert sorted(ordered) == sorted(cores)
    distinct = len(set(cores.values()))
    assert len({cores[cpu] for cpu in ordered[:distinct]}) == distinct


def test_accelerators_come_from_sysfs_with_their_links(tmp_path, monkeypatch):
    printed = subprocess.CompletedProcess((), 0, LSPCI)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: printed)
    for slot, code in {"0000:00:1e.0": "0x030200", "0000:00:00.0": "0x060000"}.items():
        path = tmp_path / slot
        path.mkdir()
        files = {
            "class": code,
            "vendor": "0x10de",
            "device": "0x1eb8",
            "current_link_speed": "2.5 GT/s PCIe",
            "max_link_speed": "8.0 GT/s PCIe",
            "current_link_width": "8",
            "max_link_width": "255",
        }
        for name, text in files.items():
            (path / name).write_text(text + "\n")
    (card,) = gpu.accelerators(tmp_path)
    assert card["name"] == "TU104GL [Tesla T4]"
    assert (card["pcie_generation"], card["max_pcie_generation"]) == (1, 3)
    assert (card["pcie_width"], card["max_pcie_width"]) == (8, None)


def test_a_folder_lies_on_the_deepest_and_last_mount():
    mounts = parse_mountinfo(MOUNTINFO)
    assert mount_of(Path("/mnt/gp3 disk/data"), mounts).kind == "xfs"
    assert mount_of(Path("/home/me"), mounts).source == "/dev/nvme0n1p1"
    assert mount_of(Path("/tmp/x"), mounts).source == "second"
    assert mount_of(Path("/x"), []) is None
