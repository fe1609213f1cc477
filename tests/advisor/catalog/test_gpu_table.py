"""Data sheets agree with themselves, with what EC2 answers and nvidia-smi shows; nodes' networks last."""

import gzip
import json
from pathlib import Path

import pytest

from advisor.catalog import load_catalog
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
    return card.sms * card.boost_mhz * 1e-6


def is_geforce(card: Gpu) -> bool:
    """GeForce cards sum in fp32 at half the rate; so do their laptops', and no Titan."""
    words = card.name.split()
    return words[0] in ("GTX", "GT") or (words[0] == "RTX" and words[1].isdigit() and "Ada" not in words)


def test_there_are_the_cards_that_people_have_and_each_sheet_has_its_source() -> None:
    assert len(CARDS) >= 200
    families = {"Pascal", "Volta", "Turing", "Ampere", "Ada", "Hopper", "Blackwell"}
    assert {card.architecture for card in CARDS} >= families
    assert [card.name for card in CARDS if card not in COUNTED] == ["B100-SXM-192GB"]
    assert all(card.l2_mib and card.watts for card in CARDS)
    text = RATES["told"]
    assert {name: SHEETS[name].gpu.fp16_tflops for name in text} == pytest.approx(text, rel=0.012)
    sure = tuple(f" ({word} confidence)" for word in ("high", "medium", "low"))
    assert all(sheet.gpu.sources.endswith(sure) for sheet in SHEETS.values())


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
            assert card.bf16_tflops == card.fp16_tflops
            assert card.tf32_tflops == pytest.approx(card.fp16_tflops / 2, rel=0.02)

    assert_each(check, CARDS)


def test_fp16_is_what_the_architecture_does_a_clock_with_fp32_sums() -> None:
    """Within 6 per cent; Hopper's and Blackwell's sheets tell lower clocks for tensor cores."""

    def check(card: Gpu) -> None:
        capability = str(card.compute_capability)
        if capability not in RATES["fp16"]:
            assert card.capability < 6
            return
        if card.name in ODD:
            assert card.name in NOTED
            return
        rate = RATES["fp16"][capability] * clock(card)
        if card.name.startswith(("GTX 16", "T4", "T6", "T1")) and card.name not in ("T4", "T4G"):
            rate /= 4  # no tensor cores: two halves a core
        elif is_geforce(card) and card.capability >= 7.5:
            rate /= 2
        text = card.name.startswith(("H", "GH", "B300"))
        assert card.fp16_tflops == pytest.approx(rate, rel=0.14 if text else 0.06)
        assert not text or card.name in NOTED

    assert_each(check, COUNTED)


CATALOG = load_catalog()
TOLD = {row["instance_type"]: row for row in read_source("catalog/aws_networks.csv")}


def test_no_type_is_promised_more_than_its_baseline_or_a_burst():
    for instance in CATALOG.instances("aws"):
        if instance.gpu_count:
            told = float(TOLD[instance.name]["baseline_gbit_per_second"])
            assert instance.network.gbit_per_second <= told
    # Not their 10, "25" and 4 x 400.
    rates = {"g5.xlarge": 2.5, "p3.16xlarge": 5, "g6e.48xlarge": 400, "ecs.gn7-c13g1.26xlarge": 30}
    assert {name: CATALOG.instance(name).network.gbit_per_second for name in rates} == rates
    cards = [CATALOG.instance(name).network.takes_several_cards for name in ("p4d.24xlarge", "g7e.12xlarge")]
    assert cards == [True, False]
    assert CATALOG.instance("g2-standard-4").network is CATALOG.instance("m5.large").network is None


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
        gpus = instance.gpu_count, instance.gpu_fraction, instance.gpu_vendor
        assert gpus == (max(1, document["Count"]), share, document["Manufacturer"]), name
        host = answer["VCpuInfo"]["DefaultVCpus"], answer["MemoryInfo"]["SizeInMiB"]
        assert (instance.vcpus, instance.memory_mib) == host, name
        memory = document["MemoryInfo"]["SizeInMiB"]
        assert instance.gpu_memory_mib == pytest.approx(memory, rel=0.08), name


def test_usable_memory_is_within_7_per_cent_of_nvidia_smi(catalog):
    """On every AWS server that was measured; one GPU's memory, whatever their number."""

    def check(row):
        item = catalog.instance(row["server"], "aws")
        assert item.gpu_memory_mib == pytest.approx(float(row["vram_mib_each"]), rel=0.07)
        assert item.gpu_count == int(row["gpu_count"])

    assert_each(check, MEASURED)
