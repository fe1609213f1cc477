"""Text as the programs and the kernel write it, and a small document."""

from __future__ import annotations

from typing import Any

from advisor.sweeps.probe.figures import SCHEMA, figure, skipped

# `lspci -D -mm -nn` of a g4dn instance and a desktop.
LSPCI = """\
0000:00:00.0 "Host bridge [0600]" "Intel Corporation [8086]" "440FX - 82441FX PMC [Natoma] [1237]" "" ""
0000:00:03.0 "VGA compatible controller [0300]" "Amazon.com, Inc. [1d0f]" "Device [1111]" "" ""
0000:00:1e.0 "3D controller [0302]" "NVIDIA Corporation [10de]" "TU104GL [Tesla T4] [1eb8]" -ra1 "NVIDIA Corporation [10de]" "Device [12a2]"
0000:0a:00.0 "VGA compatible controller [0300]" "Advanced Micro Devices, Inc. [AMD/ATI] [1002]" "Navi 31 [Radeon RX 7900 XT/7900 XTX/7900M] [744c]" -rc8 "Sapphire Technology Limited [1da2]" "Device [471e]"
pcilib: Cannot open /sys/bus/pci/devices/0000:00:04.0/resource: No such file
"""  # noqa: E501
MOUNTINFO = """\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 259:1 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p1 rw,discard
41 27 259:3 / /mnt/gp3\\040disk rw,noatime shared:9 master:2 - xfs /dev/nvme1n1 rw,attr2
42 27 0:40 / /tmp rw,nosuid - tmpfs tmpfs rw,size=8388608k
43 27 0:41 / /tmp rw,nosuid - tmpfs second rw
"""
NODE_MEMINFO = """\
Node 1 MemTotal:       198109248 kB
Node 1 MemFree:        190212004 kB
"""
MEMINFO = """\
MemTotal:       24684084 kB
MemFree:        23458408 kB
MemAvailable:   24111956 kB
"""


def document(**parts: Any) -> dict[str, Any]:
    """A document as small as the schema allows."""
    machine = {
        "cpu_model": "A CPU",
        "architecture": "x86_64",
        "cpus": 4,
        "physical_cores": 2,
        "memory_mib": 8192.0,
        "versions": {"numpy": "2.4.6"},
    }
    return {
        "schema": SCHEMA,
        "started_at": "2026-11-21T03:00:00+00:00",
        "quick": True,
        "seconds": 1.0,
        "machine": machine,
        "parts": parts,
        "warnings": [],
    }


def measured(value: float, unit: str = "GB/s") -> dict[str, Any]:
    """A figure of five equal repeats."""
    return figure([value] * 5, unit, "a test")


def gpu_part() -> dict[str, Any]:
    """The part `gpu` of a machine with one T4."""
    device = {"index": 0.0, "uuid": "GPU-6f", "name": "Tesla T4", "memory_mib": 15360.0}
    state = {"uuid": "GPU-6f", "sm_clock_mhz": 1590.0, "pcie_generation": 3.0}
    return {
        "driver": {"newest_cuda": "12.4", "cuda_of_torch": "12.4", "kernel_module": None},
        "pci": skipped("none"),
        "nvidia_smi": {"gpus": 1},
        "devices": [device],
        "under_load": {"gpus": [state], "work": "a test"},
        "host_to_device": {"pinned": measured(6.3), "pageable": measured(3.1)},
        "device_to_host": {"pinned": measured(6.5), "pageable": skipped("no memory")},
        "device_copy": measured(240.0),
    }


def operations_part() -> dict[str, Any]:
    """The part `operations` with one layer class, in fp32 and amp."""
    one_way = {
        "time": measured(1.5, "ms"),
        "traffic": measured(100.0),
        "arithmetic": measured(8.1, "TFLOP/s"),
    }
    layer = {"shape": "64x64x56x56", "forward": one_way, "backward": one_way}
    pooled = {"time": measured(0.5, "ms"), "traffic": measured(200.0)}
    pooling = {"shape": "64x64", "forward": pooled, "backward": pooled}
    layers = {"conv3x3": {"wide": layer, "deep": skipped("CUDA out of memory")}, "pooling": {"wide": pooling}}
    return {"device": "cuda", "batch": 64, "launch": measured(4.0, "us"), "fp32": layers, "amp": layers}
