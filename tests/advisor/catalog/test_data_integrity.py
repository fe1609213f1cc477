"""What a wrong row of the bundled data would break; a bundle that is not whole is refused."""

import csv
import hashlib
import json
import shutil
from datetime import date

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.catalog import OfferQuery, load_catalog
from advisor.catalog.bundle import DATA_FOLDER, MANIFEST, SCHEMA, BundleFiles, stored_prices, unpacked
from advisor.catalog.instances import read_origins
from advisor.catalog.prices import read_bases
from advisor.domain import Market
from advisor.errors import DataError
from advisor.models.performance.machines import USUAL_SECOND_THREAD_YIELD
from tests.rows import assert_each


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


def test_prices_are_above_zero_unique_and_have_a_kind_a_date_a_source_and_a_currency(priced, manifest, bases):
    for cloud, stored in priced:
        prices = stored.distinct[stored.position[stored.position > 0]]
        assert (prices > 0).all()
        assert np.isfinite(prices).all()
        assert len(set(stored.types)) == len(stored.types), cloud
        assert len(set(stored.regions)) == len(stored.regions), cloud
    markets = [(cloud, stored.market) for cloud, stored in priced]
    assert len(set(markets)) == len(markets)
    assert sum(np.count_nonzero(stored.position) for _, stored in priced) >= 100_000
    sellers = {cloud for cloud, stored in priced if stored.position.any()}
    assert sellers >= {"aws", "azure", "gcp", "alibaba", "oci", "lambda", "runpod", "nebius", "verda"}
    assert len(sellers) >= 12
    assert {stored.market for _, stored in priced} == set(Market)
    snapshot = date.fromisoformat(manifest["snapshot"])
    used = {key for _, stored in priced for key in stored.bases}
    assert used <= set(bases)
    for basis in (bases[key] for key in used):
        assert basis.kind in ("list", "observed", "estimated")
        assert basis.origin.text
        assert date(2020, 1, 1) < basis.origin.as_of <= snapshot
        assert (basis.currency == "USD") == (basis.rate.per_usd == 1)
        assert basis.currency == "USD" or f"{basis.currency} at" in basis.source
    moving = [
        bases[key]
        for _, stored in priced
        if stored.market == Market.SPOT
        for key in stored.bases
        if bases[key].kind != "list"
    ]
    assert len({basis.origin.text for basis in moving}) >= 5
    assert {basis.origin.max_age_days for basis in moving} == {90}


def test_hardware_is_plausible_has_a_source_and_agrees_with_its_sheet(manifest, instances, catalog):
    """vCPUs are one or two threads of a core; one core has a single one where they are odd."""
    snapshot = date.fromisoformat(manifest["snapshot"])
    for part in manifest["parts"].values():
        assert part["source"]
        assert part["licence"]
        assert date.fromisoformat(part["as_of"]) <= snapshot
    for instance in instances:
        assert instance.vcpus // instance.physical_cores in (1, 2), instance.name
        burst = instance.ebs_burst_mib_per_second
        assert burst is None or burst >= instance.ebs_baseline_mib_per_second
        assert instance.cpu.architecture in ("x86_64", "arm64", "arm64_mac", "x86_64_mac")
        assert instance.source
        assert date(2020, 1, 1) < instance.as_of <= snapshot
    with_sheet = [instance for instance in instances if catalog.gpu_of(instance)]
    assert len(with_sheet) > 60
    for instance in with_sheet:
        sheet = catalog.gpus[instance.gpu_name]
        assert sheet.vendor == instance.gpu_vendor, instance.name
        share = sheet.memory_mib * instance.gpu_fraction
        allowed = 0.07 if instance.current else 0.1
        assert instance.gpu_memory_mib == pytest.approx(share, rel=allowed), instance.name
    # Alibaba's interface has names of its own for cards that it does not tell.
    names = {
        instance.gpu_name
        for instance in instances
        if instance.gpu_name and not catalog.gpu_of(instance) and instance.cloud != "alibaba"
    }
    assert names == {"Gaudi HL-205", "K520", "MI25", "MI300X"}


def test_second_threads_gain_a_third_and_nothing_where_a_vcpu_is_a_core(catalog, instances):
    """Whoever made it: no divider's artefact tells EPYC apart. Graviton and the like have none."""
    for name in ("g4dn.xlarge", "p3.2xlarge", "g5.xlarge", "g6.xlarge", "c6i.large"):
        gain = catalog.instance(name).cpu.second_thread_yield
        assert gain == pytest.approx(USUAL_SECOND_THREAD_YIELD)
    whole = [instance for instance in instances if instance.vcpus == instance.physical_cores]
    assert catalog.instance("c7a.large") in whole
    assert all(instance.cpu.second_thread_yield == 0 for instance in whole)


def test_each_region_with_a_place_is_one_that_its_cloud_has(catalog):
    with (DATA_FOLDER / "region_places.csv").open(encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            assert row["region"] in catalog.known_regions(row["cloud"])


def test_files_are_those_of_the_manifest(manifest):
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
    assert sum(file.stat().st_size for file in (DATA_FOLDER / "catalog").iterdir()) <= 3e6
    text = (DATA_FOLDER / "sparecores" / "README.md").read_text()
    assert "CC-BY-SA-4.0" in text
    assert "SpareCores" in text


FILES = sorted(json.loads((DATA_FOLDER / MANIFEST).read_text())["files"])


@pytest.fixture
def folder(tmp_path):
    for part in ("catalog", "sparecores"):
        shutil.copytree(DATA_FOLDER / part, tmp_path / part)
    return tmp_path


def refused(folder, path):
    """The one line with which the bundle is refused; it names the file and the way out."""
    with pytest.raises(DataError) as caught:
        BundleFiles(folder).verify()
    message = str(caught.value)
    for words in (str(folder / path), "reinstall", "advisor.infra.build.catalog"):
        assert words in message
    assert "\n" not in message
    return message


@pytest.mark.slow
def test_a_flipped_byte_a_cut_and_a_missing_file_are_noticed_in_every_file(folder):
    def check(path):
        file = folder / path
        content = file.read_bytes()
        half = len(content) // 2
        for changed in (content[:half] + bytes([content[half] ^ 1]) + content[half + 1 :], content[:half]):
            file.write_bytes(changed)
            refused(folder, path)
        file.unlink()
        assert "No such file" in refused(folder, path)
        file.write_bytes(content)

    assert_each(check, [*FILES, MANIFEST])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        *[(text, "") for text in ("", "{", "[]", "{}", "null", "\x00\xff")],
        ('{"schema": "advisor.catalog-bundle/9"}', f"bundle/9, not {SCHEMA}"),
    ],
)
def test_a_broken_manifest_is_noticed(folder, text, words):
    (folder / MANIFEST).write_text(text, encoding="latin-1")
    assert words in refused(folder, MANIFEST)


def test_who_asks_one_cloud_on_one_market_reads_nothing_of_the_others(folder):
    (folder / "catalog" / "gcp_prices_on-demand").write_text("{}")
    damaged = load_catalog(folder)
    assert damaged.offers(OfferQuery(cloud="aws", region="us-east-1", gpus=("T4",)))
    with pytest.raises(DataError, match="gcp_prices_on-demand"):
        damaged.offers(OfferQuery(cloud="gcp"))
    (folder / "catalog" / "aws_prices_spot").unlink()
    query = OfferQuery(cloud="aws", region="us-east-1", market=Market.ON_DEMAND)
    assert len(load_catalog(folder).offers(query)) > 1000


NAMES = st.text("abc.-1", min_size=1, max_size=4)
CELLS = st.dictionaries(
    NAMES,
    st.dictionaries(NAMES, st.tuples(st.floats(1e-9, 1e6), st.sampled_from("xyz")), max_size=3),
    max_size=5,
)


def cells_of(stored):
    """Type -> region -> price and basis, as they went in."""
    return {
        name: {
            region: (stored.distinct[stored.position[row, index]], stored.bases[stored.basis[row, index]])
            for index, region in enumerate(stored.regions)
            if stored.position[row, index]
        }
        for row, name in enumerate(stored.types)
    }


@given(CELLS)
def test_every_price_is_read_back_to_the_bit_with_its_basis(cells):
    stored = unpacked(stored_prices("spot", cells).packed())
    assert stored.market == "spot"
    assert cells_of(stored) == {name: row for name, row in cells.items() if row}


@given(CELLS, st.data())
def test_what_is_taken_out_is_gone_and_nothing_else(cells, data):
    pairs = [(name, region) for name, row in cells.items() for region in row] + [("?", "?")]
    gone = data.draw(st.sets(st.sampled_from(pairs)))
    left = cells_of(stored_prices("spot", cells).without(gone))
    assert {(name, region) for name, row in left.items() for region in row} == set(pairs[:-1]) - gone
