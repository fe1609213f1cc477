"""How large the machine is inside a container, its caches, and who else uses it."""

import math
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.sweeps.machine import environment as sizes
from advisor.sweeps.machine.environment import v1_groups, v2_group
from advisor.sweeps.machine.processes import Contention, busy_seconds, busy_share, pressure, waited_seconds
from tests.rows import table

MEMINFO = "\n".join(table("sweeps")["meminfo"])


@pytest.mark.parametrize(
    ("result", "limit"),
    [
        (sizes.parse_quota("150000", "100000"), 1.5),
        (sizes.parse_quota("max", "100000"), math.inf),
        (sizes.parse_quota("50000", ""), 0.5),
        (sizes.parse_quota("-1", "100000"), math.inf),
        (sizes.parse_memory_limit("1073741824\n"), 2**30),
        (sizes.parse_memory_limit("max\n"), math.inf),
        (sizes.parse_memory_limit("9223372036854771712\n"), math.inf),
        (sizes.parse_cpu_list("0-2,8\n"), (0, 1, 2, 8)),
        (sizes.parse_cpu_list("\n"), ()),
        (sizes.parse_cpu_list("1-"), (1,)),
        (sizes.parse_size_kib("32K\n"), 32),
        (sizes.parse_size_kib("16M"), 16384),
        (sizes.parse_size_kib("1G"), 1048576),
    ],
)
def test_what_the_kernel_writes_is_read(result, limit):
    """A quota is CPUs, no limit is written in several ways; CPUs are spans, a cache's size has a unit."""
    assert result == limit


def _container(tmp_path: Path, **files: str) -> Path:
    """A fake /proc/self whose process sits in the group `box` of a version 2 hierarchy."""
    proc, root = tmp_path / "proc", tmp_path / "cgroup"
    box = root / "box"
    proc.mkdir()
    box.mkdir(parents=True)
    (proc / "cgroup").write_text("0::/box\n")
    (proc / "mountinfo").write_text(f"30 24 0:26 / {root} rw - cgroup2 cgroup rw\n")
    for folder in (root, box):
        (folder / "cgroup.procs").touch()
    for name, text in files.items():
        (box / name.replace("_", ".")).write_text(text)
    return proc


def test_a_container_limits_cpus_and_memory(tmp_path):
    proc = _container(tmp_path, cpu_max="250000 100000\n", memory_max=str(2**30), memory_current=str(2**29))
    (tmp_path / "meminfo").write_text(MEMINFO)
    assert sizes.cpu_quota(proc) == 2.5
    assert sizes.free_memory_bytes(proc, tmp_path / "meminfo") == 2**29


def test_the_limit_of_a_group_above_holds_too(tmp_path):
    proc = _container(tmp_path, cpu_max="max 100000\n")
    (tmp_path / "cgroup" / "cpu.max").write_text("50000 100000\n")
    assert sizes.cpu_quota(proc) == 0.5


def test_without_cgroups_nothing_is_limited(tmp_path):
    (tmp_path / "cgroup").write_text("")
    (tmp_path / "mountinfo").write_text("")
    assert sizes.cpu_quota(tmp_path) == math.inf
    assert sizes.free_memory_bytes(tmp_path, tmp_path / "missing") > 0
    (tmp_path / "meminfo").write_text(MEMINFO)
    total, available = sizes.total_memory_mib() * 2**20, 24111956 * 1024
    assert sizes.free_memory_bytes(tmp_path, tmp_path / "meminfo") == min(total, available)


@given(
    cpus=st.integers(1, 256), quota=st.none() | st.floats(0.01, 512), limit=st.none() | st.floats(1, 2.0**22)
)
def test_limits_never_make_a_machine_larger(cpus, quota, limit):
    host = 2.0**17
    memory = {"host_memory_mib": host, "memory_limit_mib": limit}
    size = sizes.MachineSize(cpus=tuple(range(cpus)), cpu_quota=quota, **memory)
    assert size.vcpus == min([cpus, *([quota] if quota else [])])
    assert size.memory_mib == min([host, *([limit] if limit else [])])
    assert size.physical_cores <= size.vcpus


def test_what_is_recorded_names_the_host_and_the_container(tmp_path, monkeypatch):
    proc = _container(tmp_path, cpu_max="50000 100000\n", memory_max=str(2**29), memory_current="0")
    size = sizes.machine_size(proc)
    monkeypatch.setattr(sizes, "machine_size", lambda: size)
    assert size.vcpus == 0.5
    facts = sizes.describe_machine()
    assert (facts["cpu_quota"], facts["memory_limit_mib"]) == (0.5, 512)
    assert facts["memory_mib"] > 512


def test_own_groups_are_found_nested_or_mounted_as_if_they_were_the_root(tmp_path):
    proc, cgroups = tmp_path / "proc", tmp_path / "cgroup"
    (cgroups / "memory" / "mine").mkdir(parents=True)
    (cgroups / "blkio" / "box").mkdir(parents=True)
    (cgroups / "cpu,cpuacct").mkdir()
    (cgroups / "unified" / "mine").mkdir(parents=True)
    proc.mkdir()
    (proc / "cgroup").write_text("5:blkio:/docker/1/box\n4:memory:/mine\n3:cpu,cpuacct:/gone\n0::/mine\n")
    (proc / "mountinfo").write_text(
        f"29 1 0:1 /docker/1 {cgroups}/blkio rw - cgroup cgroup rw,blkio\n"
        f"30 1 0:1 / {cgroups}/memory rw - cgroup cgroup rw,memory\n"
        f"31 1 0:2 / {cgroups}/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
        f"32 1 0:3 / {cgroups}/unified rw - cgroup2 cgroup2 rw\n"
    )
    both = cgroups / "cpu,cpuacct"
    own = {"blkio": cgroups / "blkio/box", "memory": cgroups / "memory/mine"}
    assert v1_groups(proc) == {**own, "cpu": both, "cpuacct": both}
    unified = v2_group(proc)
    assert (unified.directory, unified.mount_point) == (cgroups / "unified/mine", cgroups / "unified")


# Caches as sysfs lists them, and what a trial on some CPUs has of them.


def _cache(root: Path, cpu: int, index: int, **files: str) -> None:
    path = root / f"cpu{cpu}" / "cache" / f"index{index}"
    path.mkdir(parents=True)
    for name, text in files.items():
        (path / name).write_text(text + "\n")


def test_shared_caches_are_counted_once_and_a_trial_on_one_cpu_has_all_of_its_own(tmp_path):
    for cpu in range(4):
        l1 = {"level": "1", "type": "Data", "size": "32K", "shared_cpu_list": f"{cpu}"}
        l3 = {"level": "3", "type": "Unified", "size": "16M"}
        _cache(tmp_path, cpu, 0, **l1)
        _cache(tmp_path, cpu, 3, **l3, shared_cpu_list="0-1" if cpu < 2 else "2-3")
    seen = {cache for cpu in range(4) for cache in sizes.read_caches(cpu, tmp_path)}
    assert sorted(cache.level for cache in seen) == [1] * 4 + [3] * 2
    for cpus, mib, sharing in (([1], 16.0, 2), (range(4), 32.0, 4)):
        facts = sizes.carved_from(cpus, tmp_path)
        assert (facts["last_level_cache_mib"], facts["last_level_cache_cpus"]) == (mib, sharing)
    assert sizes.last_level_cache_mib([0], tmp_path / "describes none") == 0.0


@pytest.mark.parametrize(
    ("own", "other", "cpus", "vcpus", "known", "interfered"),
    [
        (2.0, 0.0, 2, 2.0, {}, False),  # alone
        (1.5, 0.5, 2, 2.0, {}, True),  # a neighbour takes what the trial would use
        (1.93, 0.07, 2, 2.0, {}, False),  # housekeeping
        (0.5, 0.5, 1, 0.5, {}, False),  # the trial has its full share
        (0.3, 0.7, 1, 0.5, {}, True),  # it has not
        (0.2, 0.5, 2, 2.0, {}, False),  # there is idle time: nobody waits
        (1.0, -0.02, 2, 2.0, {}, False),  # clock ticks finer than the kernel's count for nobody
        # By the kernel's account of what its threads waited for:
        (0.3, 0.7, 1, 1.0, {"waited_cores": 0.01}, False),  # its disk: others used what it left idle
        (0.3, 0.7, 1, 1.0, {"waited_cores": 0.5}, True),  # ready to run, and others ran
        (0.6, 0.02, 1, 1.0, {"waited_cores": 0.5}, False),  # its own threads waited for each other
        (1.0, 0.9, 1, 1.0, {"waited_cores": 0.9}, False),  # it had all that it may use
        (0.3, 0.7, 1, 1.0, {"waited_cores": 0.5, "at_limit": True}, False),  # its GPU never waited
        (1.0, 0.0, 1, 1.0, {"waited_cores": 0.0, "sibling_cores": 0.6}, True),  # half of its core
    ],
)
def test_a_trial_is_spoiled_when_others_take_what_it_would_have_used(
    own, other, cpus, vcpus, known, interfered
):
    entry = Contention(own_cores=own, busy_cores=own + other, cpus=cpus, vcpus=vcpus, **known)
    assert entry.interfered is interfered
    assert entry.other_cores >= 0


def test_the_kernel_tells_what_a_process_waited_and_what_pressure_there_is(tmp_path):
    assert waited_seconds([os.getpid()]) >= 0
    assert waited_seconds([]) is None
    told = "some avg10=1.00 avg60=0.50 avg300=0.10 total=2500000\nfull avg10=0\n"
    (tmp_path / "io.pressure").write_text(told)
    assert pressure(tmp_path, ".pressure") == {"io": 2.5}
    (tmp_path / "pressure").mkdir()
    (tmp_path / "pressure" / "cpu").write_text("some avg10=61.00 avg60=0.50 avg300=0.10 total=2\n")
    assert busy_share(tmp_path) == pytest.approx(0.61)


def test_the_other_threads_of_its_cores_are_a_trials_siblings(tmp_path):
    for cpu in range(4):
        topology = tmp_path / f"cpu{cpu}" / "topology"
        topology.mkdir(parents=True)
        (topology / "thread_siblings_list").write_text("0-1" if cpu < 2 else "2,3")
    assert sizes.sibling_cpus([0, 3], tmp_path) == [1, 2]
    assert sizes.sibling_cpus([7], tmp_path) == []


def test_busy_time_is_counted_on_the_trials_cpus_alone(tmp_path):
    stat = tmp_path / "stat"
    # user nice system idle iowait irq softirq steal guest
    stat.write_text(
        "cpu  0 0 0 0 0 0 0 0 0\n"
        "cpu0 100 10 20 9999 9999 5 6 7 100\n"
        "cpu1 9999 0 0 0 0 0 0 0 0\n"
        "cpu10 1 0 0 0 0 0 0 0 0\n"
    )
    assert busy_seconds([0], stat) == pytest.approx(1.48)
