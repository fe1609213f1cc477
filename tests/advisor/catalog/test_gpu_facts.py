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
        instance = catalog.instance(row["instance_type"], "aws")
        share = float(row["gpu_partition_size"] or 1)
        assert instance.gpu_count == (int(row["gpu_count"]) if share == 1 else 1)
        assert instance.gpu_fraction == share
        assert instance.gpu_vendor == row["gpu_manufacturer"]
        assert (instance.vcpus, instance.physical_cores) == (int(row["vcpus"]), int(row["cores"]))
        assert instance.memory_mib == round(float(row["memory_gib"]) * 1024)

    assert_each(check, TYPES)


def test_gpu_facts_equal_motos_answers(catalog, answers):
    """For every GPU type that moto knows; measured memory may differ from EC2's by 8 %."""
    described = {name: instance for name, instance in answers.items() if "GpuInfo" in instance}
    assert len(described) >= 60
    for name, answer in described.items():
        (document,) = answer["GpuInfo"]["Gpus"]
        instance = catalog.instance(name, "aws")
        share = document.get("GpuPartitionSize", 1.0)
        assert (instance.gpu_fraction, instance.gpu_vendor) == (share, document["Manufacturer"]), name
        assert instance.gpu_count == max(1, document["Count"]), name
        assert instance.vcpus == answer["VCpuInfo"]["DefaultVCpus"], name
        assert instance.memory_mib == answer["MemoryInfo"]["SizeInMiB"], name
        memory = document["MemoryInfo"]["SizeInMiB"]
        assert instance.gpu_memory_mib == pytest.approx(memory, rel=0.08), name


def test_usable_memory_is_within_7_per_cent_of_nvidia_smi(catalog):
    """On every AWS server that was measured; one GPU's memory, whatever their number."""

    def check(row):
        item = catalog.instance(row["server"], "aws")
        assert item.gpu_memory_mib == pytest.approx(float(row["vram_mib_each"]), rel=0.07)
        assert item.gpu_count == int(row["gpu_count"])

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
    result = catalog.offers(OfferQuery(cloud="any", min_gpu_memory_mib=gib * 1024))
    kept = {instance.instance.name for instance in result}
    for instance in catalog.instances("any"):
        sheet = catalog.gpu_of(instance)
        if sheet is None or instance.gpu_fraction < 1:
            continue
        nominal = catalog.gpus[instance.gpu_name].memory_mib
        if nominal >= gib * 1024 and any(catalog.regions_of(instance.name, instance.cloud)):
            assert instance.name in kept or not _priced(catalog, instance), instance.name
        if nominal < ECC_SHARE * gib * 1024:
            assert instance.name not in kept, instance.name


def _priced(catalog, instance):
    if not catalog.is_in_dollars(instance.cloud):
        return False
    return bool(catalog.offers(OfferQuery(cloud=instance.cloud, instances=(instance.name,))))
