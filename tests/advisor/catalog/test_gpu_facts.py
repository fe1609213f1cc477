"""GPU facts of AWS types equal what DescribeInstanceTypes answers, and what nvidia-smi shows."""

import gzip
import json
from pathlib import Path

import pytest

from advisor.catalog import OfferQuery
from advisor.catalog.match import ECC_SHARE
from advisor.infra.build.catalog.tables import read_source
from tests.rows import assert_each

TYPES = [row for row in read_source("catalog/aws_instance_types.csv") if row["gpu_name"]]
MEASURED = [row for row in read_source("sparecores/aws_gpu_servers.csv") if row["vram_mib_each"]]


@pytest.fixture(scope="module")
def answers():
    """DescribeInstanceTypes as moto carries it."""
    moto = pytest.importorskip("moto")
    path = Path(moto.__file__).parent / "ec2" / "resources" / "instance_types.json.gz"
    return json.loads(gzip.decompress(path.read_bytes()))


def test_all_gpu_types_are_known():
    """Retired ones included."""
    assert len(TYPES) == 83


def test_gpu_facts_are_those_of_the_source(catalog):
    """Count (a fraction is one GPU and its share), vendor, vCPUs, cores, RAM."""

    def check(row):
        one = catalog.instance(row["instance_type"], "aws")
        share = float(row["gpu_partition_size"] or 1)
        assert one.gpu_count == (int(row["gpu_count"]) if share == 1 else 1)
        assert one.gpu_fraction == share
        assert one.gpu_vendor == row["gpu_manufacturer"]
        assert (one.vcpus, one.physical_cores) == (int(row["vcpus"]), int(row["cores"]))
        assert one.memory_mib == round(float(row["memory_gib"]) * 1024)

    assert_each(check, TYPES)


def test_gpu_facts_equal_motos_answers(catalog, answers):
    """For every GPU type that moto knows; measured memory may differ from EC2's by 8 %."""
    described = {name: one for name, one in answers.items() if "GpuInfo" in one}
    assert len(described) >= 60
    for name, answer in described.items():
        (told,) = answer["GpuInfo"]["Gpus"]
        one = catalog.instance(name, "aws")
        share = told.get("GpuPartitionSize", 1.0)
        assert (one.gpu_fraction, one.gpu_vendor) == (share, told["Manufacturer"]), name
        assert one.gpu_count == max(1, told["Count"]), name
        assert one.vcpus == answer["VCpuInfo"]["DefaultVCpus"], name
        assert one.memory_mib == answer["MemoryInfo"]["SizeInMiB"], name
        memory = told["MemoryInfo"]["SizeInMiB"]
        assert one.gpu_memory_mib == pytest.approx(memory, rel=0.08), name


def test_usable_memory_is_within_7_per_cent_of_nvidia_smi(catalog):
    """On every AWS server that was measured; one GPU's memory, whatever their number."""

    def check(row):
        one = catalog.instance(row["server"], "aws")
        assert one.gpu_memory_mib == pytest.approx(float(row["vram_mib_each"]), rel=0.07)
        assert one.gpu_count == int(row["gpu_count"])

    assert_each(check, MEASURED)


def test_a_k80_board_is_two_gpus(catalog):
    """p2.xlarge has one chip of 12 GiB, p2.16xlarge sixteen."""
    counts = {name: catalog.instance(name).gpu_count for name in ("p2.xlarge", "p2.16xlarge")}
    assert counts == {"p2.xlarge": 1, "p2.16xlarge": 16}
    assert catalog.gpus["K80"].memory_mib == 12 * 1024
    assert catalog.instance("p2.xlarge").gpu_memory_mib <= 12 * 1024


@pytest.mark.parametrize("gib", [8, 12, 16, 24, 48, 80, 141])
def test_a_least_memory_keeps_every_card_that_is_sold_with_it(catalog, gib):
    """'24GiB..' keeps an A10G, which shows 22.5 GiB; and drops a 16 GiB card."""
    found = catalog.offers(OfferQuery(cloud="any", min_gpu_memory_mib=gib * 1024))
    kept = {one.instance.name for one in found}
    for one in catalog.instances("any"):
        sheet = catalog.gpu_of(one)
        if sheet is None or one.gpu_fraction < 1:
            continue
        nominal = catalog.gpus[one.gpu_name].memory_mib
        if nominal >= gib * 1024 and any(catalog.regions_of(one.name, one.cloud)):
            assert one.name in kept or not _priced(catalog, one), one.name
        if nominal < ECC_SHARE * gib * 1024:
            assert one.name not in kept, one.name


def _priced(catalog, instance):
    if not catalog.is_in_dollars(instance.cloud):
        return False
    return bool(catalog.offers(OfferQuery(cloud=instance.cloud, instances=(instance.name,))))
