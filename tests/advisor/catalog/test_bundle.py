"""A bundle that is missing, cut short, changed or of another version is refused; prices come back."""

import hashlib
import json
import math
import shutil
import subprocess
import sys
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from advisor.catalog import OfferQuery, load_catalog
from advisor.catalog.bundle import DATA_FOLDER, MANIFEST, SCHEMA, BundleFiles, sealed, stored_prices, unpacked
from advisor.domain import Market
from advisor.errors import DataError
from tests.rows import assert_each

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
    assert str(folder / path) in message
    assert "reinstall" in message
    assert "advisor.infra.build.catalog" in message
    assert "\n" not in message
    return message


def test_a_copy_of_the_bundle_loads(folder):
    """The folder can be anywhere."""
    assert load_catalog(folder).instance("g4dn.xlarge").vcpus == 4


def refused_with(folder, path, content):
    """The same with other content of one file (None: without it); then it is as it was."""
    before = (folder / path).read_bytes()
    if content is None:
        (folder / path).unlink()
    else:
        (folder / path).write_bytes(content)
    message = refused(folder, path)
    (folder / path).write_bytes(before)
    return message


def flipped(content, location, bit=1):
    changed = bytearray(content)
    changed[location % len(content)] ^= bit
    return bytes(changed)


@pytest.mark.slow
def test_a_flipped_byte_a_cut_and_a_missing_file_are_noticed_in_every_file(folder):
    """Half a table is no table; the reason of the file system is told."""

    def check(path):
        content = (folder / path).read_bytes()
        refused_with(folder, path, flipped(content, len(content) // 2))
        refused_with(folder, path, content[: len(content) // 2])
        assert "No such file" in refused_with(folder, path, None)

    assert_each(check, [*FILES, MANIFEST])


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", "null", '{"schema": "advisor.catalog-bundle/1"}', "\x00\xff"]
)
def test_a_broken_manifest_is_noticed(folder, text):
    """Not JSON, not ours, or of another version."""
    (folder / MANIFEST).write_text(text, encoding="latin-1")
    refused(folder, MANIFEST)


def test_another_version_is_told_apart_from_corruption(folder):
    """A newer bundle with an older program: both versions are named."""
    manifest = json.loads((folder / MANIFEST).read_text()) | {"schema": "advisor.catalog-bundle/9"}
    (folder / MANIFEST).write_text(json.dumps(manifest))
    message = refused(folder, MANIFEST)
    assert "advisor.catalog-bundle/9" in message
    assert SCHEMA in message


@pytest.mark.parametrize("key", ["files", "parts", "clouds", "snapshot"])
def test_an_incomplete_manifest_is_noticed(folder, key):
    """Our version, and something is gone."""
    manifest = json.loads((folder / MANIFEST).read_text())
    del manifest[key]
    (folder / MANIFEST).write_bytes(sealed(manifest))
    assert "incomplete" in refused(folder, MANIFEST)


def test_reading_the_catalogue_needs_numpy_alone():
    """No pandas, torch or boto3 comes in with it."""
    heavy = "pandas torch boto3 ray sklearn scipy sqlalchemy rich click"
    code = (
        "import sys; from advisor.catalog import load_catalog; load_catalog().instances(); "
        f"print([m for m in {heavy.split()} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_no_byte_of_the_manifest_changes_unnoticed(folder):
    """It guards the other files, and itself."""
    content = (folder / MANIFEST).read_bytes()
    for location in range(0, 9000, 397):
        refused_with(folder, MANIFEST, flipped(content, location, 2))


def test_one_cloud_is_answered_with_another_one_damaged(folder):
    """Who asks about AWS reads nothing of GCP; who asks about GCP is told."""
    (folder / "catalog" / "gcp_prices_on-demand").write_text("{}")
    damaged = load_catalog(folder)
    assert damaged.offers(OfferQuery(cloud="aws", region="us-east-1", gpus=("T4",)))
    with pytest.raises(DataError, match="gcp_prices_on-demand"):
        damaged.offers(OfferQuery(cloud="gcp"))


def test_one_market_is_answered_without_reading_the_others(folder):
    """The default question waits for no spot price."""
    (folder / "catalog" / "aws_prices_spot").unlink()
    query = OfferQuery(cloud="aws", region="us-east-1", market=Market.ON_DEMAND)
    assert len(load_catalog(folder).offers(query)) > 1000


def reseal(folder, path, content):
    """Put a file with wrong content, and a manifest that vouches for it."""
    (folder / path).write_bytes(content)
    manifest = json.loads((folder / MANIFEST).read_text())
    manifest["files"][path]["sha256"] = hashlib.sha256(content).hexdigest()
    (folder / MANIFEST).write_bytes(sealed(manifest))


def with_price(stored, usd):
    """The same with another price of g4dn.xlarge in us-east-1."""
    position = stored.position.copy()
    cell = stored.types.index("g4dn.xlarge"), stored.regions.index("us-east-1")
    position[cell] = len(stored.distinct)
    return replace(stored, position=position, distinct=np.append(stored.distinct, usd))


@pytest.mark.parametrize("lie", [0.0, -0.5, math.nan, math.inf])
def test_no_wrong_price_passes_even_where_the_digest_is_right(folder, lie):
    """Zero, negative, endless and senseless prices end the answer; none is shown."""
    path = "catalog/aws_prices_on-demand"
    (stored,) = BundleFiles(folder).prices(path)
    reseal(folder, path, with_price(stored, lie).packed())
    with pytest.raises(DataError, match="is no price"):
        load_catalog(folder).offers(OfferQuery(cloud="aws", region="us-east-1"))


PLAIN = b'{"market":"spot","types":["a"],"regions":["r"],"bases":["b"],'
KINDS = b'"dtypes":{"distinct":"<f8","position":"|u1","basis":"|u1"},"distinct":1}\n'


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        zlib.compress(b"{}\n"),
        zlib.compress(PLAIN + KINDS + bytes(8)),  # cut short
        zlib.compress(PLAIN + KINDS + bytes(11)),  # too long
        zlib.compress(PLAIN + KINDS + bytes(8) + b"\x01\x00"),  # points at no price
        zlib.compress(PLAIN + KINDS + bytes(8) + b"\x00\x01"),  # points at no basis
    ],
)
def test_what_is_no_file_of_prices_is_refused_even_where_the_digest_is_right(folder, content):
    """Of another form, cut short, too long, or pointing beside its own prices."""
    path = "catalog/aws_prices_on-demand"
    reseal(folder, path, content)
    with pytest.raises(DataError, match="aws_prices_on-demand is no table of prices"):
        load_catalog(folder).offers(OfferQuery(cloud="aws", region="us-east-1"))


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
    """Types without a price are left out."""
    stored = unpacked(stored_prices("spot", cells).packed(), "x")
    assert stored.market == "spot"
    assert cells_of(stored) == {name: row for name, row in cells.items() if row}


@given(CELLS, st.data())
def test_what_is_taken_out_is_gone_and_nothing_else(cells, data):
    """Pairs that nobody knows change nothing."""
    pairs = [(name, region) for name, row in cells.items() for region in row] + [("?", "?")]
    gone = data.draw(st.sets(st.sampled_from(pairs)))
    left = cells_of(stored_prices("spot", cells).without(gone))
    assert {(name, region) for name, row in left.items() for region in row} == set(pairs[:-1]) - gone


def test_positions_take_two_bytes_until_there_are_more_prices_than_that_numbers():
    """One byte, two, four: the smallest that will do."""
    kinds = []
    for count in (255, 256, 65_535, 65_536):
        row = {str(index): (float(index + 1), "b") for index in range(count)}
        kinds.append(stored_prices("spot", {"a": row}).position.dtype)
    assert kinds == [np.uint8, np.uint16, np.uint16, np.uint32]
