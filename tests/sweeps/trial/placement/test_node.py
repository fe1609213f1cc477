"""Cores and GPUs, read from the files of the kernel and of NVIDIA's driver."""

import pytest

from sweeps.trial.placement.node import Core, GpuDevice, cores_of, read_gpus, visible_gpus

# Of a machine with two A100s on the second socket (driver 535).
_INFORMATION = """Model: \t\t NVIDIA A100-SXM4-40GB
IRQ:   \t\t 155
GPU UUID: \t GPU-7b1a5a3c-1111-2222-3333-44445555{number}
Video BIOS: \t 92.00.45.00.03
Bus Type: \t PCIe
Bus Location: \t 0000:{slot}
Device Minor: \t {number}
"""
A, B = (GpuDevice(f"GPU-7b1a5a3c-1111-2222-3333-44445555{n}", 1) for n in (0, 1))


def test_threads_of_a_core_and_its_numa_node_come_from_sysfs(tmp_path):
    for cpu in range(8):
        topology = tmp_path / f"cpu{cpu}" / "topology"
        topology.mkdir(parents=True)
        (topology / "physical_package_id").write_text(f"{cpu % 4 // 2}\n")
        (topology / "thread_siblings_list").write_text(f"{cpu % 4},{cpu % 4 + 4}\n")
        (tmp_path / f"cpu{cpu}" / f"node{cpu % 4 // 2}").mkdir()
    assert cores_of([1, 2, 5, 7], tmp_path) == (
        Core(1, (1, 5), 0), Core(2, (2,), 1), Core(3, (7,), 1),
    )  # fmt: skip


def test_each_cpu_is_a_core_of_its_own_where_sysfs_is_silent(tmp_path):
    assert cores_of([4, 9], tmp_path) == (Core(4, (4,)), Core(9, (9,)))


def test_gpus_come_in_the_order_of_their_addresses_with_their_numa_node(tmp_path):
    for number, slot in enumerate(("07:00.0", "8a:00.0")):
        driver, pci = (tmp_path / kind / f"0000:{slot}" for kind in ("driver", "pci"))
        driver.mkdir(parents=True)
        pci.mkdir(parents=True)
        text = _INFORMATION.format(number=number, slot=slot)
        (driver / "information").write_text(text)
        (pci / "numa_node").write_text("1\n")
    assert read_gpus(tmp_path / "driver", tmp_path / "pci") == (A, B)
    (pci / "numa_node").write_text("-1\n")  # one node, or firmware that names none
    assert read_gpus(tmp_path / "driver", tmp_path / "pci")[1].numa_node is None
    assert read_gpus(tmp_path / "no driver", tmp_path / "pci") == ()


@pytest.mark.parametrize(
    ("variable", "left"),
    [
        ("0", (A,)), ("1,0", (B, A)), ("", ()), ("2", ()), ("0,-1,1", (A,)),
        (B.uuid, (B,)), ("MIG-5c89b2f1", (GpuDevice("MIG-5c89b2f1"),)),
    ],
)  # fmt: skip
def test_what_ray_or_a_user_assigned_is_respected(variable, left):
    assert visible_gpus((A, B), {"CUDA_VISIBLE_DEVICES": variable}) == left
    assert visible_gpus((A, B), {}) == (A, B)
