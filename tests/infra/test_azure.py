"""Azure's part of the build: what names of sizes tell, which list is taken, estimated disks."""

import pytest

from advisor.catalog import OfferQuery, load_catalog
from advisor.catalog.assumed import LOCAL_READ_IOPS_PER_GB, NETWORK_LIMIT, SERIES, SERIES_CORES
from advisor.domain import ESTIMATED, LIST, OBSERVED, Market
from advisor.errors import UsageError
from advisor.infra.build.catalog.azure import disks, prices, sizes
from advisor.infra.build.catalog.azure.sources import GPU_LIST
from advisor.infra.build.catalog.azure.sources import LIST as LINUX_LIST
from advisor.infra.build.catalog.neo.clouds import CLOUDS
from advisor.infra.build.catalog.neo.prices import NEBIUS_GIB_USD, NEBIUS_VCPU_USD
from advisor.infra.build.catalog.tables import read_source
from tests.rows import assert_each, table

TABLES = table("built")


def test_names_of_sizes_tell_vcpus_cores_and_ram():
    def check(size, vcpus, cores, gib):
        row = sizes.cpu_size(size)
        has = row["vcpus"], row["physical_cores"], row["memory_mib"]
        assert has == (vcpus, cores, str(gib * 1024))

    assert_each(check, TABLES["azure_sizes"])


@pytest.mark.parametrize("size", ["Standard_D4_v2", "Standard_M416ms_v2", "Standard_E96as_v7"])
def test_what_a_name_does_not_tell_stays_unknown(size):
    """D4_v2 has 8 vCPUs; no rule tells the RAM of the others."""
    row = sizes.cpu_size(size)
    assert not row.get("memory_mib")
    assert row.get("vcpus") != "4"


@pytest.mark.parametrize(("size", "vcpus", "card"), TABLES["azure_gpu_sizes"])
def test_a_gpu_size_that_no_source_tells_of_has_no_ram_and_no_count(size, vcpus, card):
    facts = sizes.gpu_size(size, None)
    assert (facts["vcpus"], facts["gpu_name"]) == (vcpus, card)
    assert not facts.get("memory_mib")
    assert not facts.get("gpu_count")


def test_gpu_sizes_have_what_both_sources_tell():
    """Fractions of an A10 are fractions, and where name and interface disagree nothing is told."""
    expected = sizes.told_gpu_sizes()

    def facts(size):
        row = sizes.gpu_size(size, expected[size])
        return tuple(
            row.get(column, "")
            for column in ("gpu_name", "gpu_count", "gpu_fraction", "gpu_memory_mib", "memory_mib")
        )

    assert facts("Standard_NC40ads_H100_v5") == ("H100-NVL-94GB", "1", "1", "96256", "327680")
    assert facts("Standard_NV12s_v3") == ("M60", "1", "1", "8192", "114688")
    assert facts("Standard_NV6ads_A10_v5")[1:4] == ("1", "0.1666666667", "4096")
    assert facts("Standard_NC32ads_A10_v4")[:2] == ("A10", "")


def test_limits_are_those_published_else_assumed_and_marked():
    expected = sizes.told_gpu_sizes()
    known = sizes.gpu_size("Standard_ND96isr_H100_v5", expected["Standard_ND96isr_H100_v5"])
    assert (known["ebs_baseline_iops"], known["ebs_baseline_mbps"]) == ("40800", "4896")
    assert NETWORK_LIMIT not in known["assumed"]
    assumed = sizes.cpu_size("Standard_D8s_v5")
    assert NETWORK_LIMIT in assumed["assumed"]
    assert float(assumed["ebs_baseline_iops"]) <= 12800  # what its documentation says


def test_no_size_passes_on_less_than_a_smaller_one_of_its_series():
    """NC12s_v3, which no document names, has the 20,000 IOPS that NC6s_v3 is published with."""
    expected = sizes.told_gpu_sizes()
    result = sizes.gpu_size("Standard_NC12s_v3", expected["Standard_NC12s_v3"])
    assert (result["ebs_baseline_iops"], result["ebs_baseline_mbps"]) == ("20000", "1600")
    limits = {}
    for name, row in expected.items():
        facts = sizes.gpu_size(name, row)
        pair = int(facts["vcpus"]), float(facts["ebs_baseline_iops"]), row["uncached_iops"]
        limits.setdefault(sizes.parsed(name).series, []).append(pair)
    for series in limits.values():
        for vcpus, iops, published in series:
            smaller = [entry for entry in series if entry[2] and entry[0] <= vcpus]
            assert published or all(iops >= least for _, least, _ in smaller)


def test_what_follows_the_name_of_a_series_says_so():
    """RAM, cores and local disks of CPU sizes; of GPU sizes, whose RAM two sources tell, cores."""
    expected = sizes.told_gpu_sizes()
    assert SERIES in sizes.cpu_size("Standard_L8s_v3")["assumed"].split()
    gpu = sizes.gpu_size("Standard_NC40ads_H100_v5", expected["Standard_NC40ads_H100_v5"])
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
    result = {row.instance_type: row.cells for row in prices.build_prices()}
    assert {r: (c.price, c.basis) for r, c in result["a"].items()} == {"here": ("6.98", LINUX_LIST.id)}
    assert {r: c.basis for r, c in result["b"].items()} == {"here": GPU_LIST.id, "far": GPU_LIST.id}


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


# Neo-clouds in the bundle: every price is what a list says, and what nobody tells is assumed.

CATALOG = load_catalog()
HOURS = {
    (row["cloud"], row["card"], row["tier"]): float(row["usd_per_gpu_hour"])
    for row in read_source("catalog/neo_gpu_hours.csv")
}
CARDS = {(row["cloud"], row["card"]): row for row in read_source("catalog/neo_cards.csv")}
TYPES = read_source("catalog/neo_types.csv")


def price(cloud, name, region=None):
    """What a type costs on demand, in its first region where none is named."""
    path = region or CATALOG.regions_of(name, cloud)[0]
    return CATALOG.price(name, path, Market.ON_DEMAND, cloud)


def test_every_offer_has_a_price_a_kind_a_day_and_ages_within_a_month():
    """OCI's list, which lasts longer, and Paperspace's, of which nobody told the day, apart."""
    for cloud in filter(CATALOG.is_in_dollars, CLOUDS):
        query = OfferQuery(cloud=cloud)
        offers = [*CATALOG.offers(query), *CATALOG.partial_offers(query)]
        assert offers
        for offer in offers:
            assert 0.01 < offer.price.usd_per_hour < 200, offer
            assert offer.price.as_of.year == 2026 or cloud == "paperspace"
            assert offer.price.max_age_days == (365 if cloud == "oci" else 30)


@pytest.mark.parametrize("cloud", ["verda", "hyperstack", "jarvislabs", "digitalocean"])
def test_a_type_that_is_sold_by_the_gpu_costs_its_gpu_hours(cloud):
    """To the cent of the list of August, or of May where that has no such card."""
    count = 0
    for row in TYPES:
        card = CARDS.get((cloud, row["card"]))
        if row["cloud"] == cloud and row["instance_type"] and card:
            hour = HOURS[cloud, card["priced_as"], "on-demand"]
            result = price(cloud, row["instance_type"])
            assert result.usd_per_hour == pytest.approx(hour * int(row["gpu_count"]), rel=1e-6)
            assert result.kind == LIST
            count += 1
    assert count >= 2


def test_what_nebius_adds_to_an_l40s_gave_every_price_of_its_own_list():
    """1.35 a GPU, 0.016 a vCPU and 0.0022 a GiB: the price of the smallest, to the cent."""
    smallest = 1.35 + 8 * NEBIUS_VCPU_USD + 32 * NEBIUS_GIB_USD
    assert smallest == pytest.approx(1.5484, abs=1e-9)
    row = price("nebius", "gpu-l40s-d_4gpu-192vcpu-1152gb")
    assert row.usd_per_hour == pytest.approx(11.0064, abs=1e-6)
    assert (row.kind, row.low < 1 < row.high) == (ESTIMATED, True)


def test_the_tiers_of_runpod_are_types_of_their_own():
    """Its own hosts are listed, those of others were seen."""
    secure, community = (price("runpod", "1x-h100-sxm.secure"), price("runpod", "1x-h100-sxm.community"))
    assert (secure.usd_per_hour, secure.kind) == (3.29, LIST)
    assert (community.usd_per_hour, community.kind) == (2.69, OBSERVED)


def test_a_list_by_type_that_a_later_list_confirms_has_the_later_day():
    """Eight H100 of Lambda cost the GPU hour of August; one costs more, as listed in May."""
    assert str(price("lambda", "gpu_8x_h100_sxm5").as_of) == "2026-08-22"
    row = price("lambda", "gpu_1x_h100_sxm5")
    assert (row.usd_per_hour, str(row.as_of)) == (4.29, "2026-05-20")


def test_prices_in_euros_count_at_the_rate_that_the_user_gives_and_never_without(monkeypatch):
    """Leafcloud, Infomaniak, and OVH's T2; no source at hand has a dated rate."""
    everywhere = OfferQuery(cloud="any", accelerated=True, market=Market.ON_DEMAND)
    known = {(offer.instance.cloud, offer.instance.name) for offer in CATALOG.offers(everywhere)}
    assert not {"leafcloud", "infomaniak"} & {cloud for cloud, _ in known}
    assert ("ovh", "t2-le-45") not in known
    with pytest.raises(UsageError, match=r"in EUR.*ADVISOR_EUR_PER_USD"):
        CATALOG.offers(OfferQuery(cloud="leafcloud"))
    monkeypatch.setenv("ADVISOR_EUR_PER_USD", "0.8")
    expected = load_catalog()
    price = expected.price("eg1.a100x4.v50-324", "nl", cloud="leafcloud")
    assert price.usd_per_hour == pytest.approx(6.42824 / 0.8)
    assert "EUR at 0.8 a US dollar" in price.source
    assert expected.price("t2-le-45", "global", cloud="ovh").usd_per_hour == pytest.approx(1.0)
    assert len(expected.offers(OfferQuery(cloud="infomaniak"))) == 10


def test_serverless_offers_and_types_without_a_named_card_are_nowhere():
    names = {instance.name for cloud in CLOUDS for instance in CATALOG.instances(cloud)}
    assert "RENDER-S" not in names
    assert not {row["tier"] for row in read_source("catalog/neo_gpu_hours.csv")} & {"serverless"}


def test_cards_have_the_memory_of_their_data_sheet_whoever_sells_them():
    """Count and memory agree within 7 % between clouds that sell one card."""
    for cloud in CLOUDS:
        for instance in CATALOG.instances(cloud):
            if instance.gpu_name:
                sheet = CATALOG.gpus[instance.gpu_name]
                assert instance.gpu_memory_mib == pytest.approx(sheet.memory_mib, rel=0.07), instance.name


def test_every_cloud_has_a_disk_and_says_what_of_it_is_assumed():
    """The rates of OCI's volumes and the price of Nebius' are known, all else has a range."""
    for cloud in filter(CATALOG.is_in_dollars, CLOUDS.keys() - {"vast"}):
        instance = next(entry for entry in CATALOG.instances(cloud) if entry.gpu_count)
        region = CATALOG.regions_of(instance.name, cloud)[0]
        disks = CATALOG.disks_of(cloud).candidate_disks(instance, 100, region)
        network = next(disk for disk in disks if disk.price)
        assert (network.rate.low < 1 < network.rate.high) == (cloud != "oci")
        assert (network.price.kind == ESTIMATED) == (cloud != "nebius")
        names = {fact.name.rpartition(".")[2] for fact in network.assumed}
        assert ("usd_per_gib_month" in names) == (cloud != "nebius")
        assert ({"read_mib_s", "read_iops"} <= names) == (cloud != "oci")


def test_hosts_of_vast_are_listed_and_never_ranked():
    """Its names say 32 vCPUs and 64 GiB of one card and of eight: no fact of a host."""
    query = OfferQuery(cloud="vast")
    assert CATALOG.offers(query) == []
    offers = CATALOG.partial_offers(query)
    assert len({(offer.type.name, offer.region) for offer in offers}) == len(offers) == 64
    assert {offer.type.missing for offer in offers} == {("vCPUs", "cores", "RAM")}


def test_grace_has_a_core_for_each_vcpu_and_arm_code():
    result = CATALOG.instance("gpu_1x_gh200", "lambda")
    assert (result.cpu.architecture, result.physical_cores) == ("arm64", result.vcpus)
    assert result.assumed == ()
