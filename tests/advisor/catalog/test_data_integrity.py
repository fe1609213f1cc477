"""The bundled data itself: what a wrong row would break."""

import hashlib
import json
from datetime import date

import numpy as np
import pytest

from advisor.catalog import OfferQuery, Supported, check
from advisor.catalog.bundle import DATA_FOLDER, MANIFEST, BundleFiles
from advisor.catalog.instances import read_origins
from advisor.catalog.prices import read_bases
from advisor.domain import Market
from advisor.models.performance.machines import USUAL_SECOND_THREAD_YIELD


@pytest.fixture(scope="module")
def manifest():
    return json.loads((DATA_FOLDER / MANIFEST).read_text())


@pytest.fixture(scope="module")
def instances(catalog):
    return catalog.instances("any")


@pytest.fixture(scope="module")
def files():
    return BundleFiles(DATA_FOLDER)


@pytest.fixture(scope="module")
def bases(catalog, files):
    return read_bases(files, read_origins(files), catalog.currencies)


@pytest.fixture(scope="module")
def priced(manifest, files):
    """(cloud, prices on one market) of everything."""
    return [
        (cloud, stored)
        for cloud, facts in manifest["clouds"].items()
        for path in facts["prices"]
        for stored in files.prices(path)
    ]


def test_every_aws_type_is_there_once(instances):
    """All 1,395 types, the 22 retired ones marked."""
    names = [instance.name for instance in instances if instance.cloud == "aws"]
    assert len(names) == len(set(names)) == 1395
    assert sum(not instance.current for instance in instances) == 22


def test_a_hundred_thousand_offers_of_a_dozen_providers(priced):
    """Each of them a price of its own, on every market."""
    assert sum(np.count_nonzero(stored.position) for _, stored in priced) >= 100_000
    sellers = {cloud for cloud, stored in priced if stored.position.any()}
    assert sellers >= {"aws", "azure", "gcp", "alibaba", "oci", "lambda", "runpod", "nebius", "verda"}
    assert len(sellers) >= 12
    assert {stored.market for _, stored in priced} == set(Market)


def test_prices_are_above_zero_and_unique(priced):
    """No free offers, and one price for a type, region and market."""
    for cloud, stored in priced:
        prices = stored.distinct[stored.position[stored.position > 0]]
        assert (prices > 0).all()
        assert np.isfinite(prices).all()
        assert len(set(stored.types)) == len(stored.types), cloud
        assert len(set(stored.regions)) == len(stored.regions), cloud
    markets = [(cloud, stored.market) for cloud, stored in priced]
    assert len(set(markets)) == len(markets)


def test_every_price_has_a_kind_a_date_a_source_and_a_currency(manifest, priced, bases):
    """Nothing is free or undated, and what is not in dollars says at which rate it was taken."""
    snapshot = date.fromisoformat(manifest["snapshot"])
    used = {key for _, stored in priced for key in stored.bases}
    assert used <= set(bases)
    for basis in (bases[key] for key in used):
        assert basis.kind in ("list", "observed", "estimated")
        assert basis.origin.text
        assert date(2020, 1, 1) < basis.origin.as_of <= snapshot
        assert (basis.currency == "USD") == (basis.rate.per_usd == 1)
        assert basis.currency == "USD" or f"{basis.currency} at" in basis.source


def test_spot_prices_that_nobody_lists_are_old_after_90_days(priced, bases):
    """Whichever cloud they are of: a market moves. OCI lists its spot price as half of another."""
    moving = [
        bases[key]
        for _, stored in priced
        if stored.market == Market.SPOT
        for key in stored.bases
        if bases[key].kind != "list"
    ]
    assert len({basis.origin.text for basis in moving}) >= 5
    assert {basis.origin.max_age_days for basis in moving} == {90}


def test_every_fact_has_a_source_and_a_date_within_the_snapshot(manifest, instances):
    """Nothing is undated, and nothing is newer than the snapshot says it is."""
    snapshot = date.fromisoformat(manifest["snapshot"])
    assert all(instance.source and date(2020, 1, 1) < instance.as_of <= snapshot for instance in instances)
    parts = manifest["parts"].values()
    assert all(part["source"] and part["licence"] for part in parts)
    assert all(date.fromisoformat(part["as_of"]) <= snapshot for part in parts)


def test_hardware_is_plausible(instances):
    """vCPUs are one or two threads of a core (one core has a single one where they are odd);
    bursts are not below baselines."""
    for instance in instances:
        assert instance.vcpus // instance.physical_cores in (1, 2), instance.name
        burst = instance.ebs_burst_mib_per_second
        assert burst is None or burst >= instance.ebs_baseline_mib_per_second
        assert instance.cpu.architecture in ("x86_64", "arm64", "arm64_mac", "x86_64_mac")


def test_gpu_facts_agree_between_type_and_sheet(catalog, instances):
    """Vendor is the same, and usable memory is within 10 % of the data sheet's share."""
    with_sheet = [instance for instance in instances if catalog.gpu_of(instance)]
    assert len(with_sheet) > 60
    for instance in with_sheet:
        sheet = catalog.gpus[instance.gpu_name]
        assert sheet.vendor == instance.gpu_vendor, instance.name
        share = sheet.memory_mib * instance.gpu_fraction
        assert instance.gpu_memory_mib == pytest.approx(share, rel=0.1), instance.name


def test_providers_of_one_card_sell_the_same_card(catalog, instances):
    """Count times memory is within 7 % of the data sheet's, whoever rents it out."""
    of_card = {}
    for instance in instances:
        if catalog.gpu_of(instance) and instance.gpu_memory_mib and instance.current:
            sheet = catalog.gpus[instance.gpu_name].memory_mib * instance.gpu_fraction
            of_card.setdefault(instance.gpu_name, {})[instance.cloud, instance.name] = (
                instance.gpu_memory_mib / sheet
            )
    assert sum(len({cloud for cloud, _ in rows}) > 1 for rows in of_card.values()) >= 10
    off = {
        (card, *who): round(share, 3)
        for card, rows in of_card.items()
        for who, share in rows.items()
        if abs(share - 1) > 0.07
    }
    assert off == {}


def test_only_gpus_without_facts_lack_a_sheet(catalog, instances):
    """A new GPU name must be mapped, or listed here as known to be without a data sheet; Alibaba's
    interface has names of its own for cards that it does not tell."""
    names = {
        instance.gpu_name
        for instance in instances
        if instance.gpu_name and not catalog.gpu_of(instance) and instance.cloud != "alibaba"
    }
    assert names == {"Gaudi HL-205", "K520", "MI25", "MI300X"}


def test_ebs_bandwidth_is_decimal_megabits_in_mebibytes(catalog):
    """g5.xlarge: 700 Mbps, which AWS also writes as 87.5 MB/s, is 83.4 MiB/s; burst 3,500 Mbps."""
    g5 = catalog.instance("g5.xlarge")
    assert g5.ebs_baseline_mib_per_second == pytest.approx(87.5e6 / 2**20)
    assert g5.ebs_burst_mib_per_second == pytest.approx(437.5e6 / 2**20)


def test_second_threads_yield_nothing_where_a_vcpu_is_a_core(instances):
    """Graviton and the like: cores equal vCPUs, so there is no second thread."""
    whole = [instance for instance in instances if instance.vcpus == instance.physical_cores]
    assert whole
    assert all(instance.cpu.second_thread_yield == 0 for instance in whole)


def test_known_second_thread_yields(catalog):
    """Two threads a core gain a third, whoever made it: no divider's artefact tells EPYC apart."""
    for name in ("g4dn.xlarge", "p3.2xlarge", "g5.xlarge", "g6.xlarge", "c6i.large"):
        gain = catalog.instance(name).cpu.second_thread_yield
        assert gain == pytest.approx(USUAL_SECOND_THREAD_YIELD)
    assert catalog.instance("c7a.large").cpu.second_thread_yield == 0


def test_the_cheapest_gpu_types_that_can_run_are_nvidia_and_current(catalog):
    """AMD, arm64 T4G, fractions and retired types are cheaper than g4dn.xlarge and cannot run."""
    offers = catalog.offers(OfferQuery(region="us-east-1", market=Market.ON_DEMAND, accelerated=True))
    able = [
        offer
        for offer in offers
        if isinstance(
            check(offer.instance, catalog.gpu_of(offer.instance), needs_gpu=True, closed=offer.closed),
            Supported,
        )
    ]
    assert len(able) >= 35
    assert min(able, key=lambda o: o.price.usd_per_hour).instance.name == "g4dn.xlarge"
    assert {o.instance.gpu_vendor for o in able} == {"NVIDIA"}
    assert all(catalog.is_offered(o.instance.name, o.region) for o in able)


def test_files_are_those_of_the_manifest(manifest):
    """Every listed file is there with its digest and row count, and no other file ships."""
    for path, facts in manifest["files"].items():
        content = (DATA_FOLDER / path).read_bytes()
        assert hashlib.sha256(content).hexdigest() == facts["sha256"]
        assert "offers" in facts or len(content.splitlines()) == facts["rows"] + 1
    shipped = {
        f"{folder}/{file.name}"
        for folder in ("catalog", "sparecores")
        for file in (DATA_FOLDER / folder).iterdir()
    }
    assert shipped - {MANIFEST, "sparecores/README.md"} == set(manifest["files"])


def test_the_bundle_is_small():
    """At most 3 MB, manifest included."""
    assert sum(file.stat().st_size for file in (DATA_FOLDER / "catalog").iterdir()) <= 3e6


def test_share_alike_data_carries_its_licence():
    """The CC BY-SA files are apart, with attribution beside them."""
    text = (DATA_FOLDER / "sparecores" / "README.md").read_text()
    assert "CC-BY-SA-4.0" in text
    assert "SpareCores" in text
