"""Reads go past the page cache where they can, and the file they read has no name."""

import errno
import os
from pathlib import Path

import pytest

from advisor.errors import MeasuringError
from advisor.sweeps.probe import disk
from advisor.sweeps.probe.disk import Opened, Pattern, opened_past_cache, scratch_file, timed_read
from tests.sweeps.probe.test_session import _session

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


def test_a_folder_that_cannot_be_written_is_told():
    with (
        pytest.raises(MeasuringError, match=r"cannot write to '/proc'|only 0 MiB"),
        scratch_file(Path("/proc"), 16 * MIB, 1.0),
    ):
        pass


def test_too_little_space_is_told_before_anything_is_written(tmp_path, monkeypatch):
    class Full:
        f_bavail, f_frsize = 8, MIB

    monkeypatch.setattr(disk.os, "statvfs", lambda _: Full)
    with pytest.raises(MeasuringError, match="only 8 MiB are free"), scratch_file(tmp_path, 16 * MIB, 1.0):
        pass


def test_a_quota_that_ends_the_writing_is_told(tmp_path, monkeypatch):
    def refuse(_descriptor, _content):
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    monkeypatch.setattr(disk.os, "write", refuse)
    with pytest.raises(MeasuringError, match="ran out of space"), scratch_file(tmp_path, 16 * MIB, 1.0):
        pass


def test_reads_are_counted_with_a_latency_each(written):
    with opened_past_cache(*written) as file:
        window = timed_read(file, ANYWHERE, 0.02)
    assert len(window.latencies) >= ANYWHERE.depth
    assert min(window.latencies) > 0
    assert window.reads_per_second == len(window.latencies) / window.wall_seconds


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
    found = disk.probe(session)
    assert found["past_page_cache"] is False
    assert "memory was measured" in session.warnings[0]


def test_rates_latencies_and_iops_belong_together(tmp_path):
    windows = [disk.TimedRead(wall_seconds=2.0, processor_seconds=0.1, latencies=(0.01,) * 200)] * 5
    pattern = Pattern(block_bytes=128 * 1024, depth=1, at_random=True)
    found = disk._figures(windows, pattern, "a test")
    assert found["iops"]["value"] == 100.0
    assert found["rate"]["value"] == 12.5
    assert found["latency_median"]["value"] == pytest.approx(10_000)
    assert not found["limited_by_own_cpu"]
