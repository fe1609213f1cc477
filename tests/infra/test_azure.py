"""Azure's part of the build: what names of sizes tell, which list is taken, estimated disks."""

import pytest

from advisor.catalog import OfferQuery, load_catalog
from advisor.domain import ESTIMATED, Market
from advisor.errors import UsageError
from advisor.infra.build.catalog.azure import disks, prices, sizes
from advisor.infra.build.catalog.azure.prices import GPU_LIST
from advisor.infra.build.catalog.azure.prices import LIST as LINUX_LIST
from advisor.infra.build.catalog.neo.clouds import CLOUDS
from tests.rows import assert_each, table

TABLES = table("built")


def test_names_of_sizes_tell_vcpus_cores_and_ram():
    def check(size, vcpus, cores, gib):
        row = sizes.cpu_size(size)
        has = row["vcpus"], row["physical_cores"], row["memory_mib"]
        assert has == (vcpus, cores, str(gib * 1024))

    def gpu_size_that_no_source_tells(size, vcpus, card):
        facts = sizes.gpu_size(size, None)
        assert (facts["vcpus"], facts["gpu_name"]) == (vcpus, card)
        assert not facts.get("memory_mib")
        assert not facts.get("gpu_count")

    assert_each(check, TABLES["azure_sizes"])
    assert_each(gpu_size_that_no_source_tells, TABLES["azure_gpu_sizes"])


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
