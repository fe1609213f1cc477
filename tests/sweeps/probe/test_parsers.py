"""The kernel's and lspci's text, parsed."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.sweeps.machine.mounts import mount_of, parse_mountinfo
from advisor.sweeps.probe import cpu, gpu
from tests.rows import table

TABLES = table("sweeps")
LSPCI, MOUNTINFO = (f"{chr(10).join(TABLES[name])}\n" for name in ("lspci", "mountinfo"))


def test_the_memory_of_a_numa_node_is_its_total(tmp_path):
    node = tmp_path / "node0"
    node.mkdir()
    (node / "cpulist").write_text("0-3\n")
    (node / "meminfo").write_text("\n".join(TABLES["node_meminfo"]))
    assert cpu.read_numa_nodes(tmp_path) == [{"node": 0, "cpus": "0-3", "memory_mib": 198109248 / 1024}]


@given(st.dictionaries(st.integers(0, 63), st.integers(0, 15), min_size=1))
def test_every_core_gets_a_thread_before_any_gets_two(cores):
    ordered = cpu.threads_first_by_core(cores)
    assert sorted(ordered) == sorted(cores)
    distinct = len(set(cores.values()))
    assert len({cores[cpu] for cpu in ordered[:distinct]}) == distinct


@pytest.mark.parametrize(
    ("cores", "threads", "counts"),
    [(1, 1, [1]), (2, 2, [1, 2]), (4, 8, [1, 2, 4, 8]), (48, 96, [1, 2, 4, 8, 16, 32, 48, 64, 96])],
)
def test_decoding_is_tried_with_one_thread_the_cores_and_all_threads(cores, threads, counts):
    assert cpu.thread_counts(cores, threads) == counts


def test_lspci_names_may_hold_brackets_and_messages_are_passed_over():
    devices = {device.slot: device for device in gpu.parse_lspci(LSPCI)}
    assert devices["0000:00:1e.0"].name == "TU104GL [Tesla T4]"
    assert devices["0000:00:1e.0"].vendor_code == "10de"
    radeon = devices["0000:0a:00.0"]
    assert (radeon.vendor, radeon.class_code) == ("Advanced Micro Devices, Inc. [AMD/ATI]", "0300")
    assert len(devices) == 4


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


@pytest.mark.parametrize(("speed", "generation"), [("16.0 GT/s PCIe", 4), ("Unknown", None)])
def test_the_speed_of_a_lane_tells_the_generation(speed, generation):
    assert gpu.parse_generation(speed) == generation


def test_a_folder_lies_on_the_deepest_and_last_mount():
    mounts = parse_mountinfo(MOUNTINFO)
    assert mount_of(Path("/mnt/gp3 disk/data"), mounts).kind == "xfs"
    assert mount_of(Path("/home/me"), mounts).source == "/dev/nvme0n1p1"
    assert mount_of(Path("/tmp/x"), mounts).source == "second"
    assert mount_of(Path("/x"), []) is None
