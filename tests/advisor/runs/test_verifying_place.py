"""A trial is held to the instance it is about, or refused with the way out."""

from datetime import date

import pytest
from msgspec.structs import replace

from advisor.catalog import load_catalog
from advisor.domain import ON_ANY_GPU, ON_CPU, Accelerator, Disk, DiskChoice, DiskRate, Price, Task
from advisor.errors import UsageError
from advisor.runs.verification.machine import VerifiedMachine, place_for, require_gpus, sheet_named
from advisor.sweeps.machine.environment import instance_type
from advisor.sweeps.planning.disks import UNLIMITED
from advisor.sweeps.planning.plan import Machine

CATALOG = load_catalog()
BIG = Machine(cpus=8, physical_cores=4, memory_mib=32_000.0, cpu=None)
SMALL = Machine(cpus=2, physical_cores=2, memory_mib=24_000.0, cpu=None)
T4 = ("Tesla T4",)


def place(name="auto", *, task=Task.INFERENCE, accelerator=None, machine=BIG, here=None, gpus=()):
    return place_for(task, name, accelerator, CATALOG, machine, here, gpus)


def disk(**changes):
    price = Price(usd_per_hour=0.02, kind="list", as_of=date(2026, 1, 1), source="a list")
    values = {
        "rate": DiskRate(type="gp3", read_mib_per_second=125.0, read_latency_seconds=0.001),
        "choice": DiskChoice(type="gp3"),
        "size_gib": 100.0,
        "binding_limit": "volume",
        "price": price,
    }
    return Disk(**{**values, **changes})


def test_a_cloud_instance_is_known_by_its_firmware_and_others_by_nothing(tmp_path):
    assert instance_type(tmp_path) is None
    (tmp_path / "sys_vendor").write_text("Amazon EC2\n")
    (tmp_path / "product_name").write_text("g4dn.xlarge\n")
    assert instance_type(tmp_path) == "g4dn.xlarge"
    (tmp_path / "sys_vendor").write_text("QEMU\n")
    assert instance_type(tmp_path) is None


def test_auto_is_the_instance_that_one_stands_on():
    found = place(here="g4dn.xlarge", gpus=T4)
    assert found.is_here
    assert (found.instance.name, found.vcpus, found.accelerator) == ("g4dn.xlarge", 4, ON_ANY_GPU)


@pytest.mark.parametrize("here", [None, "c5.large", "x99.huge"])
def test_auto_elsewhere_is_the_machine_as_it_is(here):
    found = place(here=here)
    assert found.instance is None
    assert not found.is_here
    assert (found.vcpus, found.memory_mib, found.accelerator) == (8, 32_000.0, ON_CPU)


def test_a_larger_machine_is_held_to_the_instance():
    found = place("g4dn.xlarge", accelerator="emulated:T4")
    assert not found.is_here
    assert (found.vcpus, found.memory_mib, found.emulated_gpu) == (4, 16_384, "T4")
    assert place("g4dn.xlarge", accelerator="emulated").emulated_gpu == "T4"


def test_preprocessing_asks_for_no_gpu():
    assert place("g4dn.xlarge", task=Task.PREPROCESSING).accelerator == ON_CPU
    assert place("c5.large", task=Task.PREPROCESSING, machine=SMALL).vcpus == 2


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"name": "g9x.large"}, "unknown instance type"),
        ({"name": "g4dn.xlarge"}, "no NVIDIA GPU here.*emulated:T4"),
        ({"name": "g5.xlarge", "gpus": T4}, "has a Tesla T4 and g5.xlarge a A10G"),
        ({"name": "g4dn.xlarge", "accelerator": "cpu"}, "nothing is learnt"),
        ({"name": "g4dn.xlarge", "accelerator": "emulated:L4"}, "use --accelerator emulated:T4"),
        ({"name": "g4dn.xlarge", "accelerator": "tpu", "gpus": T4}, "no accelerator 'tpu'"),
        ({"name": "c5.large"}, "leave --instance out"),
        ({"name": "g4dn.xlarge", "accelerator": "emulated:T4", "machine": SMALL}, "4 vCPUs.*this machine 2"),
    ],
)
def test_what_cannot_stand_for_an_instance_is_refused(asked, words):
    with pytest.raises(UsageError, match=words):
        place(asked.pop("name"), **asked)


def test_names_of_drivers_and_of_the_catalogue_are_one_gpu():
    assert sheet_named(CATALOG, "NVIDIA A10G").name == "A10G"
    assert sheet_named(CATALOG, "NVIDIA H100 80GB HBM3").name.startswith("H100")
    assert sheet_named(CATALOG, "NVIDIA Unheard-of 1") is None


def test_the_disk_of_the_instance_itself_has_its_own_latency_and_no_burst():
    away = VerifiedMachine(instance=None, is_here=False, accelerator=ON_CPU, vcpus=2, memory_mib=1000)
    here = VerifiedMachine(instance=None, is_here=True, accelerator=ON_CPU, vcpus=2, memory_mib=1000)
    assert away.disk_rate(None) == UNLIMITED
    assert away.disk_rate(disk()) == disk().rate
    assert here.disk_rate(disk()).read_latency_seconds is None
    assert here.disk_rate(disk()).read_mib_per_second == 125.0
    assert here.disk_rate(disk(price=None)) == DiskRate(type="gp3")


def test_more_gpus_than_the_machine_has_are_refused_and_the_way_out_is_named():
    """An instance is verified with as many GPUs as its prediction counts on."""
    whole = VerifiedMachine(
        instance=CATALOG.instance("g4dn.12xlarge"),
        is_here=False,
        accelerator=ON_ANY_GPU,
        vcpus=48.0,
        memory_mib=196608.0,
    )
    with pytest.raises(UsageError, match=r"on 4 GPUs, and this machine has 1.*--max-gpus"):
        require_gpus(whole, 4, T4)
    require_gpus(whole, 4, T4 * 4)
    require_gpus(replace(whole, accelerator=Accelerator.parse("emulated:T4")), 4, ())
