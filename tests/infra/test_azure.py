"""Azure's part of the build: what names of sizes tell, which list is taken, estimated disks."""

import pytest

from advisor.catalog import OfferQuery, load_catalog
from advisor.domain import ESTIMATED, Market
from advisor.errors import UsageError
from advisor.infra.build.catalog.azure import disks, prices
from advisor.infra.build.catalog.neo.clouds import CLOUDS
from tests.rows import table

TABLES = table("built")


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
