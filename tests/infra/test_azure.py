"""Azure's part of the build: what names of sizes tell, which list is taken, estimated disks."""

import pytest

from advisor.catalog.assumed import LOCAL_READ_IOPS_PER_GB, NETWORK_LIMIT, SERIES, SERIES_CORES
from advisor.infra.build.catalog.azure import disks, prices, sizes
from advisor.infra.build.catalog.azure.sources import GPU_LIST, LIST
from tests.rows import assert_each

# size -> vCPUs, cores, GiB of RAM (Azure's documentation of the series)
NAMED = [
    ("Standard_D8s_v5", "8", "4", 32),
    ("Standard_D8ls_v5", "8", "4", 16),
    ("Standard_D96as_v5", "96", "48", 384),
    ("Standard_D8ps_v6", "8", "8", 32),
    ("Standard_E8ads_v5", "8", "4", 64),
    ("Standard_E16-4ads_v5", "4", "2", 128),
    ("Standard_E64_v3", "64", "32", 432),
    ("Standard_E96ads_v5", "96", "48", 672),
    ("Standard_F72s_v2", "72", "36", 144),
    ("Standard_F8als_v6", "8", "8", 16),
    ("Standard_HB120-16rs_v3", "16", "16", 448),
    ("Standard_L8s_v3", "8", "4", 64),
]


def test_names_of_sizes_tell_vcpus_cores_and_ram():
    def check(size, vcpus, cores, gib):
        row = sizes.cpu_size(size)
        has = row["vcpus"], row["physical_cores"], row["memory_mib"]
        assert has == (vcpus, cores, str(gib * 1024))

    assert_each(check, NAMED)


@pytest.mark.parametrize("size", ["Standard_D4_v2", "Standard_M416ms_v2", "Standard_E96as_v7"])
def test_what_a_name_does_not_tell_stays_unknown(size):
    """D4_v2 has 8 vCPUs; no rule tells the RAM of the others."""
    row = sizes.cpu_size(size)
    assert not row.get("memory_mib")
    assert row.get("vcpus") != "4"


@pytest.mark.parametrize(
    ("size", "vcpus", "card"),
    [
        ("Standard_ND96asr_A100_v4", "96", "A100-SXM4-80GB"),
        ("Standard_NC144lds_xl_RTXPRO6000BSE_v6", "144", "RTX PRO 6000 Blackwell Server"),
        ("Standard_NG32adms_V620", "32", "V620"),
        ("Standard_NC24r_Promo", "24", "K80"),
    ],
)
def test_a_gpu_size_that_no_source_tells_of_has_no_ram_and_no_count(size, vcpus, card):
    facts = sizes.gpu_size(size, None)
    assert (facts["vcpus"], facts["gpu_name"]) == (vcpus, card)
    assert not facts.get("memory_mib")
    assert not facts.get("gpu_count")


def test_gpu_sizes_have_what_both_sources_tell():
    """Fractions of an A10 are fractions, and where name and interface disagree nothing is told."""
    told = sizes.told_gpu_sizes()

    def facts(size):
        row = sizes.gpu_size(size, told[size])
        return tuple(
            row.get(column, "")
            for column in ("gpu_name", "gpu_count", "gpu_fraction", "gpu_memory_mib", "memory_mib")
        )

    assert facts("Standard_NC40ads_H100_v5") == ("H100-NVL-94GB", "1", "1", "96256", "327680")
    assert facts("Standard_NV12s_v3") == ("M60", "1", "1", "8192", "114688")
    assert facts("Standard_NV6ads_A10_v5")[1:4] == ("1", "0.1666666667", "4096")
    assert facts("Standard_NC32ads_A10_v4")[:2] == ("A10", "")


def test_limits_are_those_published_else_assumed_and_marked():
    told = sizes.told_gpu_sizes()
    known = sizes.gpu_size("Standard_ND96isr_H100_v5", told["Standard_ND96isr_H100_v5"])
    assert (known["ebs_baseline_iops"], known["ebs_baseline_mbps"]) == ("40800", "4896")
    assert NETWORK_LIMIT not in known["assumed"]
    assumed = sizes.cpu_size("Standard_D8s_v5")
    assert NETWORK_LIMIT in assumed["assumed"]
    assert float(assumed["ebs_baseline_iops"]) <= 12800  # what its documentation says


def test_no_size_passes_on_less_than_a_smaller_one_of_its_series():
    """NC12s_v3, which no document names, has the 20,000 IOPS that NC6s_v3 is published with."""
    told = sizes.told_gpu_sizes()
    found = sizes.gpu_size("Standard_NC12s_v3", told["Standard_NC12s_v3"])
    assert (found["ebs_baseline_iops"], found["ebs_baseline_mbps"]) == ("20000", "1600")
    limits = {}
    for name, row in told.items():
        facts = sizes.gpu_size(name, row)
        pair = int(facts["vcpus"]), float(facts["ebs_baseline_iops"]), row["uncached_iops"]
        limits.setdefault(sizes.parsed(name).series, []).append(pair)
    for series in limits.values():
        for vcpus, iops, published in series:
            smaller = [one for one in series if one[2] and one[0] <= vcpus]
            assert published or all(iops >= least for _, least, _ in smaller)


def test_what_follows_the_name_of_a_series_says_so():
    """RAM, cores and local disks of CPU sizes; of GPU sizes, whose RAM two sources tell, cores."""
    told = sizes.told_gpu_sizes()
    assert SERIES in sizes.cpu_size("Standard_L8s_v3")["assumed"].split()
    gpu = sizes.gpu_size("Standard_NC40ads_H100_v5", told["Standard_NC40ads_H100_v5"])
    assert gpu["assumed"].split() == [SERIES_CORES, LOCAL_READ_IOPS_PER_GB]


def test_no_published_limit_but_of_the_largest_sizes_is_below_the_assumed_one():
    for row in sizes.told_gpu_sizes().values():
        if row["uncached_iops"] and not row["instance_type"].startswith("Standard_ND"):
            vcpus = int(row["vcpus"])
            most = sizes.MOST_ASSUMED_IOPS
            assumed = min(sizes.ASSUMED_IOPS_PER_VCPU * vcpus, most)
            assert float(row["uncached_iops"]) >= 0.99 * assumed


def test_a_price_with_windows_is_never_taken(monkeypatch):
    """Of a size that one list has dearer than the Linux list, that list counts nowhere."""
    lists = {
        "catalog/azure_prices.csv.gz": [
            {"instance_type": "a", "market": "on-demand", "here": "6.98", "far": ""},
            {"instance_type": "b", "market": "on-demand", "here": "1", "far": ""},
        ],
        "catalog/azure_gpu_prices.csv": [
            {"vm_size": "a", "here": "8.82", "far": "9"},
            {"vm_size": "b", "here": "1", "far": "2"},
        ],
    }
    monkeypatch.setattr(prices, "read_source", lists.__getitem__)
    found = {row.instance_type: row.cells for row in prices.build_prices()}
    assert {r: (c.price, c.basis) for r, c in found["a"].items()} == {"here": ("6.98", LIST.id)}
    assert {r: c.basis for r, c in found["b"].items()} == {"here": GPU_LIST.id, "far": GPU_LIST.id}


def test_a_price_that_is_a_tenth_of_what_a_size_costs_elsewhere_is_a_slip():
    """A region that is dear for every size has none."""
    plain = {"here": "1", "there": "1.1", "far": "3"}
    listed = {f"size{n}": plain for n in range(5)} | {"slip": plain | {"there": "0.11"}}
    assert prices.slips_of(listed) == {("slip", "there")}
    cells = {row.instance_type: row.cells for row in prices.build_prices()}
    assert "newzealandnorth" not in cells["Standard_F16ams_v6"]


def test_estimated_disk_prices_lie_within_the_interval_where_the_list_is_known():
    """Four other regions of Europe, every type, every size: the bounds that ship hold in each."""
    listed = disks.listed_prices()
    estimates = disks.estimated_prices(listed, disks.region_ratios(prices.build_prices()))
    errors = []
    for key, parts in listed.items():
        if key[0] == disks.BASE:
            continue
        guessed = estimates[key]
        pairs = [*zip(parts[:3], guessed[:3], strict=True)]
        pairs += [(a[1], b[1]) for a, b in zip(parts[3], guessed[3], strict=True)]
        errors += [true / guess for true, guess in pairs if true]
    assert len(errors) > 150
    assert disks.ESTIMATE_LOW < min(errors) < max(errors) < disks.ESTIMATE_HIGH
    assert (round(min(errors), 2), round(max(errors), 2)) == (0.91, 1.12)
