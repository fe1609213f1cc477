"""What every limiter promises; the kernel's own is tested for real where it may be used."""

import os
import resource
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from functools import partial

import pytest
from msgspec.structs import replace

from advisor.domain import LimitedBy
from advisor.sweeps.machine.environment import V1_CONTROLLERS, allowed_cpus, block_device, v1_groups, v2_group
from advisor.sweeps.machine.processes import stat_fields
from advisor.sweeps.trial.cgroups import CgroupV1, CgroupV2, delegated_parent
from advisor.sweeps.trial.limits import (
    Affinity,
    LimitRequest,
    MemoryPeak,
    ResourceLimits,
    WholeMachine,
    read_usage,
)
from advisor.sweeps.trial.ownership import clean_up
from advisor.sweeps.worker.inputs import evict

BURN = "sum(1 for _ in iter(int, 1))"
OWNER = """
import subprocess, time
from tests.contracts.test_limiters import CgroupV1, limits_of, v1_groups
with CgroupV1(limits_of(memory_mib=64), v1_groups()) as hold:
    child = subprocess.Popen(['sleep', '600'])
    hold.add(child.pid)
    print(child.pid, flush=True)
    time.sleep(600)
"""


def has_v1():
    groups = v1_groups()
    writable = all(os.access(group, os.W_OK) for group in groups.values())
    return set(groups) == set(V1_CONTROLLERS) and writable and os.getuid() == 0


def kernel_version():
    return tuple(int(part) for part in os.uname().release.split(".")[:2])


def limits_of(vcpus=1.0, memory_mib=512.0, **changes):
    cpus = tuple(allowed_cpus()[-max(1, round(vcpus)) :])
    return LimitRequest(vcpus=vcpus, memory_mib=memory_mib, cpus=cpus, **changes)


@contextmanager
def started(code):
    """A Python process that waits for a line."""
    command = [sys.executable, "-c", f"import sys; sys.stdin.readline()\n{code}"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@contextmanager
def loaded(hold, code):
    """A Python process in a group, which has printed a line and waits for another."""
    with started(code) as process:
        hold.add(process.pid)
        told(process)
        process.stdout.readline()
        yield process


@contextmanager
def held(hold, code):
    """A Python process under a hold; it begins when it is told to `go`."""
    with started(code) as process:
        hold.add(process.pid)
        hold.limit_memory()
        hold.engage()
        yield process


def go(process):
    return process.communicate(b"go\n")[0]


def told(process):
    process.stdin.write(b"go\n")
    process.stdin.flush()


class LimiterContract:
    limited_by: LimitedBy

    @pytest.fixture
    def limiter(self):
        raise NotImplementedError

    def test_the_hold_says_what_it_is(self, limiter):
        with limiter(limits_of()) as hold:
            assert hold.limited_by is self.limited_by

    def test_a_held_process_does_its_work_and_its_usage_is_seen(self, limiter):
        with limiter(limits_of()) as hold, held(hold, "print(sum(range(10**6)))") as process:
            before = read_usage(hold.usage_source(), process.pid).cpu_seconds
            assert go(process).strip() == b"499999500000"
            assert read_usage(hold.usage_source()).cpu_seconds >= before
            assert not hold.killed_for_memory()

    def test_nothing_is_left_behind(self, limiter, groups_left):
        before = groups_left()
        with pytest.raises(ZeroDivisionError), limiter(limits_of()):
            raise ZeroDivisionError
        assert groups_left() == before

    @pytest.fixture
    def groups_left(self):
        return lambda: set()


class TestUnlimited(LimiterContract):
    limited_by = LimitedBy.NONE

    @pytest.fixture
    def limiter(self):
        return ResourceLimits


class TestWholeMachine(LimiterContract):
    limited_by = LimitedBy.HOST

    @pytest.fixture
    def limiter(self):
        return WholeMachine


class TestAffinity(LimiterContract):
    limited_by = LimitedBy.AFFINITY

    @pytest.fixture
    def limiter(self):
        return Affinity

    @pytest.mark.parametrize("changes", [{"vcpus": 0.5}, {"read_mib_per_second": 50.0}, {"processes": 2}])
    def test_what_it_cannot_hold_it_does_not_claim(self, limiter, changes):
        with limiter(limits_of(**changes)) as hold:
            assert hold.limited_by is LimitedBy.NONE

    def test_the_process_is_pinned_and_an_allocation_beyond_its_memory_fails(self, limiter):
        with limiter(limits_of()) as hold, held(hold, "pass") as process:
            assert os.sched_getaffinity(process.pid) == {allowed_cpus()[-1]}
        code = "try: bytearray(2**30)\nexcept MemoryError: print('no')"
        with limiter(limits_of(memory_mib=256)) as hold, held(hold, code) as process:
            assert go(process).strip() == b"no"

    def test_nobody_is_limited_before_a_process_is_added(self, limiter):
        """A pid of 0 would be ourselves."""
        before = resource.getrlimit(resource.RLIMIT_DATA)
        with limiter(limits_of(memory_mib=2048)) as hold:
            hold.limit_memory()
        assert resource.getrlimit(resource.RLIMIT_DATA) == before

    def test_what_is_mapped_and_not_used_is_not_taken_for_a_full_memory(self, limiter):
        """RLIMIT_DATA counts it: CUDA and threads map far more than they use."""
        code = (
            "import mmap; kept = mmap.mmap(-1, 2**29, flags=mmap.MAP_PRIVATE)\n"
            "print('up', flush=True); sys.stdin.readline(); print(len(bytearray(2**24)))"
        )
        with limiter(limits_of(memory_mib=256)) as hold, loaded(hold, code) as process:
            hold.limit_memory()
            assert hold.held["memory"] is None
            assert hold.limited_by is LimitedBy.NONE
            assert go(process).strip() == str(2**24).encode()

    def test_more_in_use_than_the_limit_is_refused(self, limiter):
        code = "held = b'x' * 2**28; print('up', flush=True); sys.stdin.readline()"
        limits, refusal = limits_of(memory_mib=64), pytest.raises(MemoryError, match="64 MiB")
        with limiter(limits) as hold, loaded(hold, code), refusal:
            hold.limit_memory()


def groups_of(owner):
    return {group for parent in v1_groups().values() for group in parent.glob(f"advisor-{owner}-*")}


class KernelContract(LimiterContract):
    """What a kernel holds for real."""

    def test_a_disk_limit_without_a_device_is_not_claimed(self, limiter):
        with limiter(limits_of(read_mib_per_second=50.0)) as hold:
            assert hold.limited_by is LimitedBy.NONE

    @pytest.mark.parametrize("vcpus", [0.25, 1.0])
    def test_cpu_time_is_held_to_the_vcpus(self, limiter, vcpus):
        """Never more; less only when neighbours are busy, so that is not asserted."""
        with limiter(limits_of(vcpus)) as hold, held(hold, BURN) as process:
            told(process)
            start, used = time.monotonic(), read_usage(hold.usage_source()).cpu_seconds
            time.sleep(1.0)
            used = read_usage(hold.usage_source()).cpu_seconds - used
            assert used / (time.monotonic() - start) <= vcpus * 1.05 + 0.1  # a period more or less

    def test_a_process_beyond_its_memory_is_killed_and_recognised(self, limiter):
        with limiter(limits_of(memory_mib=64)) as hold:
            with held(hold, "bytearray(2**28); print('alive')") as process:
                assert go(process) == b""
                assert process.returncode == -signal.SIGKILL
            assert hold.killed_for_memory()

    def test_page_cache_counts_as_memory(self, limiter, big_file):
        code = f"f = open({str(big_file)!r}, 'rb')\nwhile f.read(2**20): pass"
        with limiter(limits_of(memory_mib=48)) as hold, held(hold, code) as process:
            peak = MemoryPeak(hold.usage_source())
            go(process)
            assert not hold.killed_for_memory()
            self.check_peak(peak.read(), 40, 48.1)

    def test_the_peak_is_that_under_the_limit_not_that_of_loading(self, limiter):
        code = "loaded = bytearray(2**27); del loaded; print('up', flush=True); sys.stdin.readline()"
        with limiter(limits_of(memory_mib=256)) as hold, loaded(hold, code):
            hold.limit_memory()
            peak = MemoryPeak(hold.usage_source())
            self.check_peak(peak.read(), 1, 64)

    def check_peak(self, peak, least, most):
        if peak is None:
            assert self.limited_by is LimitedBy.CGROUP_V2
            assert kernel_version() < (6, 12), "version 2 forgets peaks from there on"
            return
        assert least <= peak <= most

    def test_more_in_use_than_the_limit_ends_the_process_or_is_refused(self, limiter):
        code = "held = bytearray(2**27); print('up', flush=True); sys.stdin.readline()"
        with limiter(limits_of(memory_mib=64)) as hold, loaded(hold, code) as process:
            if self.limited_by is LimitedBy.CGROUP_V1:
                with pytest.raises(MemoryError, match="64 MiB"):
                    hold.limit_memory()
                return
            hold.limit_memory()
            assert process.wait(30) == -signal.SIGKILL
            assert hold.killed_for_memory()

    def test_libraries_give_way_to_data_that_is_read_under_the_limit(self, limiter, big_file):
        """100 MiB are mapped and used twice before; 40 MiB of data fit beside what is left."""
        if block_device(big_file) is None:
            pytest.skip("the temporary folder lies on no block device")
        data = big_file.with_name("data")
        data.write_bytes(os.urandom(2**20) * 40)
        os.sync()
        evict([data])
        code = (
            f"import mmap; library = open({str(big_file)!r}, 'rb')\n"
            "mapped = mmap.mmap(library.fileno(), 0, prot=mmap.PROT_READ)\n"
            "for _ in range(2): sum(mapped[::4096])\n"
            f"data = open({str(data)!r}, 'rb')\n"
            "while True:\n    print('up', flush=True); sys.stdin.readline()\n"
            "    data.seek(0)\n    while data.read(2**20): pass\n"
        )
        with limiter(limits_of(memory_mib=80)) as hold, started(code) as process:

            def read_again():
                told(process)
                process.stdout.readline()
                return read_usage(hold.usage_source()).read_bytes

            hold.add(process.pid)
            read_again()
            hold.limit_memory()
            hold.engage()
            read = read_again()
            if read is None:
                pytest.skip("without the io controller nobody counts what is read")
            assert read_again() == read

    @pytest.mark.slow
    def test_cold_reads_are_held_to_the_disks_rate(self, limiter, big_file):
        device = block_device(big_file)
        if device is None:
            pytest.skip("the temporary folder lies on no block device")
        code = f"f = open({str(big_file)!r}, 'rb')\nwhile f.read(2**20): pass"
        limits = limits_of(read_mib_per_second=50.0, device=device)
        with limiter(limits) as hold, held(hold, code) as process:
            if hold.held["disk"] is None:
                pytest.skip("the io controller is not ours, and the hold says so")
            start = time.monotonic()
            go(process)
            seconds = time.monotonic() - start
            # A busy machine reads more slowly, never faster.
            assert read_usage(hold.usage_source()).read_bytes / 2**20 / seconds <= 52
            assert read_usage(hold.usage_source()).read_bytes >= 2**26

    @pytest.fixture
    def big_file(self, tmp_path):
        path = tmp_path / "big"
        path.write_bytes(os.urandom(2**20) * 100)
        os.sync()
        evict([path])
        return path


@pytest.mark.root
@pytest.mark.skipif(not has_v1(), reason="needs root and writable version 1 cgroups")
class TestCgroupV1(KernelContract):
    limited_by = LimitedBy.CGROUP_V1

    @pytest.fixture
    def limiter(self):
        return partial(CgroupV1, parents=v1_groups())

    @pytest.fixture
    def groups_left(self):
        return lambda: groups_of(os.getpid())

    def test_groups_and_processes_of_a_killed_owner_are_removed(self):
        owner = subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE)
        orphan = int(owner.stdout.readline())
        assert len(groups_of(owner.pid)) == len(V1_CONTROLLERS)
        owner.kill()
        owner.wait()  # not communicate: the orphan keeps the pipe open
        owner.stdout.close()
        assert clean_up() >= len(V1_CONTROLLERS)
        assert groups_of(owner.pid) == set()
        fields = stat_fields(orphan)
        assert not fields or fields[0] == "Z"


@pytest.mark.root
class TestCgroupV2(KernelContract):
    limited_by = LimitedBy.CGROUP_V2

    @pytest.fixture
    def parent(self):
        return delegated_parent(v2_group()) or pytest.skip("needs version 2 cgroups of our own")

    @pytest.fixture
    def limiter(self, parent):
        return partial(CgroupV2, parent=parent)

    @pytest.fixture
    def groups_left(self, parent):
        return lambda: set(parent.glob(f"advisor-{os.getpid()}-*"))


def test_only_all_of_the_machine_is_the_whole_machine():
    everything = limits_of(float(len(allowed_cpus())), memory_mib=2.0**40)
    assert everything.wants_whole_machine
    assert not limits_of(0.5, memory_mib=2.0**40).wants_whole_machine
    assert not replace(everything, read_iops=5.0).wants_whole_machine
