"""Data sheets agree with themselves, with what EC2 answers and nvidia-smi shows; nodes' networks last."""

import gzip
import json
from pathlib import Path

import pytest

from advisor.catalog import OfferQuery, load_catalog
from advisor.catalog.match import ECC_SHARE
from advisor.domain import Gpu
from advisor.infra.build.catalog.tables import read_source
from tests.rows import assert_each, table

SHEETS = load_catalog().gpu_sheets
CARDS = [sheet.gpu for sheet in SHEETS.values() if sheet.gpu.vendor == "NVIDIA"]
COUNTED = [card for card in CARDS if card.sms and card.boost_mhz]
NOTED = {row["gpu"] for row in read_source("catalog/gpu_specs.csv") if row["notes"]}
# Rates by architecture and card, of NVIDIA's guide and white papers.
RATES = table("gpu_rates")
# Told otherwise by their sheets; each has a note in the source.
ODD = {"TITAN V", "A10G", "L40", "L20", "H20-SXM5-96GB", "RTX 5090 D", "RTX 5090 D v2"}


def clock(card: Gpu) -> float:
    """Multiprocessors times TFLOPS of one result a clock in each."""
    assert card.sms is not None
    assert card.boost_mhz is not None
    return card.sms * card.boost_mhz * 1e-6


def is_geforce(card: Gpu) -> bool:
    """GeForce cards sum in fp32 at half the rate; so do their laptops', and no Titan."""
    words = card.name.split()
    return words[0] in ("GTX", "GT") or (words[0] == "RTX" and words[1].isdigit() and "Ada" not in words)


def test_there_are_the_cards_that_people_have_and_each_sheet_has_its_source() -> None:
    assert len(CARDS) >= 200
    assert {card.architecture for card in CARDS} >= {
        "Pascal",
        "Volta",
        "Turing",
        "Ampere",
        "Ada",
        "Hopper",
        "Blackwell",
    }
    assert [card.name for card in CARDS if card not in COUNTED] == ["B100-SXM-192GB"]
    assert all(card.l2_mib and card.watts for card in CARDS)
    text = RATES["told"]
    assert {name: SHEETS[name].gpu.fp16_tflops for name in text} == pytest.approx(text, rel=0.012)
    assert all(
        sheet.gpu.sources.endswith((" (high confidence)", " (medium confidence)", " (low confidence)"))
        for sheet in SHEETS.values()
    )


def test_fp32_is_two_results_a_core_and_clock_and_formats_are_told_where_there_are_units() -> None:
    """At the boost clock, within 3 per cent."""

    def check(card: Gpu) -> None:
        cores = RATES["cores"][str(card.compute_capability)]
        assert card.fp32_tflops == pytest.approx(2 * cores * clock(card), rel=0.03)

    assert_each(check, COUNTED)
    # bf16 and TF32 from Ampere on: as fast as fp16, and half of it.

    def check(card: Gpu) -> None:
        new = card.capability is not None and card.capability >= 8
        assert (card.bf16_tflops is not None) == (card.tf32_tflops is not None) == new
        if new:
            assert card.fp16_tflops is not None
            assert card.bf16_tflops == card.fp16_tflops
            assert card.tf32_tflops == pytest.approx(card.fp16_tflops / 2, rel=0.02)

    assert_each(check, CARDS)


def test_fp16_is_what_the_architecture_does_a_clock_with_fp32_sums() -> None:
    """Within 6 per cent; Hopper's and Blackwell's sheets tell lower clocks for tensor cores."""

    def check(card: Gpu) -> None:
        capability = str(card.compute_capability)
        if capability not in RATES["fp16"]:
            assert card.capability is not None
            assert card.capability < 6
            return
        if card.name in ODD:
            assert card.name in NOTED
            return
        rate = RATES["fp16"][capability] * clock(card)
        if (
            card.name.startswith(("GTX 16", "T4", "T6", "T1"))
            and card.fp16_tflops is not None
            and card.name not in ("T4", "T4G")
        ):
            rate /= 4  # no tensor cores: two halves a core
        elif is_geforce(card) and card.capability is not None and card.capability >= 7.5:
            rate /= 2
        text = card.name.startswith(("H", "GH", "B300"))
        assert card.fp16_tflops == pytest.approx(rate, rel=0.14 if text else 0.06)
        assert not text or card.name in NOTED

    assert_each(check, COUNTED)


CATALOG = load_catalog()
TOLD = {row["instance_type"]: row for row in read_source("catalog/aws_networks.csv")}


def types_with_gpus(cloud):
    return [instance for instance in CATALOG.instances(cloud) if instance.gpu_count]


def test_no_type_is_promised_more_than_its_baseline_or_a_burst():
    for gpu in types_with_gpus("aws"):
        assert gpu.network.gbit_per_second <= float(TOLD[gpu.name]["baseline_gbit_per_second"])
    assert CATALOG.instance("g5.xlarge", "aws").network.gbit_per_second == 2.5  # not its 10
    assert CATALOG.instance("p3.16xlarge", "aws").network.gbit_per_second == 5  # not its "25"
    assert CATALOG.instance("g6e.48xlarge", "aws").network.gbit_per_second == 400  # not 4 x 400
    cards = [CATALOG.instance(name).network.takes_several_cards for name in ("p4d.24xlarge", "g7e.12xlarge")]
    assert cards == [True, False]
    assert CATALOG.instance("ecs.gn7-c13g1.26xlarge", "alibaba").network.gbit_per_second == 30
    assert CATALOG.instance("g2-standard-4", "gcp").network is None
    assert CATALOG.instance("m5.large", "aws").network is None


MEASURED = [row for row in read_source("sparecores/aws_gpu_servers.csv") if row["vram_mib_each"]]


@pytest.fixture(scope="module")
def answers():
    """DescribeInstanceTypes as moto carries it."""
    moto = pytest.importorskip("moto")
    path = Path(moto.__file__).parent / "ec2" / "resources" / "instance_types.json.gz"
    return json.loads(gzip.decompress(path.read_bytes()))


def test_gpu_facts_equal_motos_answers(catalog, answers):
    """For every GPU type that moto knows; measured memory may differ from EC2's by 8 %."""
    assert sum(bool(instance.gpu_name) for instance in catalog.instances("aws")) == 83, "retired ones too"
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
