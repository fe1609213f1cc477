"""A user's file is taken whole or not at all, and never makes a price of what is none."""

import csv
import io
from datetime import date
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from advisor.catalog import OfferQuery, load_catalog
from advisor.catalog.importing import import_file, imports_in
from advisor.catalog.overlay import import_names
from advisor.catalog.providers import own_offers, skypilot
from advisor.catalog.providers.own_offers import FACTS, NEEDED, OPTIONAL
from advisor.catalog.providers.rows import PriceFile
from advisor.domain import Market
from advisor.errors import UsageError
from tests.advisor.catalog.builders import order
from tests.rows import table

BUNDLED = load_catalog()
CASES = table("imports")
GOOD = {"instance_type": "box", "vcpus": "8", "memory_gib": "32", "gpu_name": "T4", "gpu_count": "1"}
GOOD |= {"region": "home", "market": "on-demand", "price_per_hour": "0.5", "currency": "USD"}
GOOD |= {"kind": "list", "as_of": "2026-07-20"}


def text_of(*changes):
    """A file with one good line for each of the changes made to it."""
    rows = [GOOD | change for change in changes]
    out = io.StringIO()
    writer = csv.DictWriter(out, list(dict.fromkeys(key for row in rows for key in row)))
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def take(folder, text, name="mine", **more):
    """Import a text into a folder; the catalogue with it."""
    file = folder / f"{name}.csv"
    file.write_text(text)
    import_file(file, None, folder / "kept", **more)
    return load_catalog(imports=folder / "kept")


def test_a_good_file_becomes_offers_of_its_own_cloud(tmp_path):
    yuan, unpriced = {"region": "office", "currency": "CNY", "price_per_hour": "7.07"}, {"region": "hut"}
    known = take(tmp_path, text_of({}, yuan, unpriced | {"price_per_hour": ""}))
    result = known.offers(OfferQuery(cloud="mine"))
    assert [(o.region, o.price.usd_per_hour) for o in result] == [("home", 0.5), ("office", pytest.approx(1))]
    (missing,) = known.unpriced(OfferQuery(cloud="mine", region="hut"))
    assert missing.reason == "no_price"
    assert known.price("box", "hut", cloud="mine") is None
    instance = result[0].instance
    assert (instance.gpu_name, instance.physical_cores) == ("T4", 4)
    assert result[0].price.as_of == date(2026, 7, 20)
    assert result[0] in known.offers(OfferQuery(cloud="any", gpus=("T4",)))


@pytest.mark.parametrize(("changes", "reason"), CASES["own_offers"])
def test_a_bad_line_refuses_the_file_with_its_number_and_the_reason(tmp_path, changes, reason):
    with pytest.raises(UsageError, match=r"^line 3 .*; nothing was imported$") as caught:
        take(tmp_path, text_of({}, changes))
    assert reason in str(caught.value)
    assert import_names(tmp_path / "kept") == []


cells = st.sampled_from(
    ["", "0", "-1", "1", "0.5", "nan", "1e400", "USD", "list", "free", "spot", "x y", "2026-01-01"]
) | st.text(max_size=6)
lines = st.dictionaries(st.sampled_from(sorted((*NEEDED, *OPTIONAL))), cells, max_size=4)


def rows_in(text):
    """The offers of a file of one's own, or the line with which it is refused."""
    file = PriceFile(path=Path("mine.csv"), name="mine", text=text)
    try:
        return own_offers.contents_of(file, BUNDLED).rows
    except UsageError as error:
        return str(error)


@given(st.lists(lines, min_size=1, max_size=4))
@example([{"as_of": "0\n0"}])
def test_whatever_a_file_says_prices_are_right_or_the_file_is_refused(changes):
    """No wrong price comes out: above 0, or 0 and free; and each row is one of the file."""
    rows = rows_in(text_of(*changes))
    if isinstance(rows, str):
        assert "\n" not in rows
        return
    assert len(rows) == len(changes)
    for row in rows:
        free = row.kind == "free"
        assert row.price is None or (row.price == 0 if free else row.price > 0)
        assert row.currency in ("USD", "CNY")
        assert set(row.facts) <= set(FACTS)


INFO = "\"{'Gpus': [{'Name': 'T4', 'MemoryInfo': {'SizeInMiB': 16384}}]}\""
COLUMNS = "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,GpuInfo,Price,SpotPrice"
SKYPILOT = f"""{COLUMNS},Region,AvailabilityZone,Arch
g9.xlarge,T4,1.0,4.0,16.0,{INFO},0.5,0.2,east,east-a,x86_64
g9.xlarge,T4,1.0,4.0,16.0,{INFO},0.5,0.15,east,east-b,x86_64
c9.large,,,2.0,4.0,,0.1,,east,east-a,arm64
f9.large,L4,0.125,2.0,8.0,,0.2,,east,east-a,x86_64
,V100,1.0,,,,2.4,0.7,east,east-a,
"""


def test_skypilots_catalogue_is_read_zone_by_zone(tmp_path):
    known = take(tmp_path, SKYPILOT, "sky", as_of=date(2026, 7, 1))
    result = {(o.instance.name, o.market): o for o in known.offers(OfferQuery(cloud="sky"))}
    assert result["g9.xlarge", Market.ON_DEMAND].price.usd_per_hour == 0.5
    spot = result["g9.xlarge", Market.SPOT].price
    assert (spot.usd_per_hour, spot.kind) == (0.15, "observed")
    arm = result["c9.large", Market.ON_DEMAND].instance
    assert (arm.cpu.architecture, arm.physical_cores, arm.gpu_name) == ("arm64", 2, None)
    assert ("c9.large", Market.SPOT) not in result
    (partial,) = known.partial_offers(OfferQuery(cloud="sky"))
    assert partial.type.missing == ("how much GPU it has",)
    assert read_by_skypilot(SKYPILOT).left_out.total() == 1


def read_by_skypilot(text):
    """What is read of a catalogue of a new cloud."""
    file = PriceFile(path=Path("sky.csv"), name="sky", text=text, as_of=date(2026, 7, 1))
    return skypilot.contents_of(file, BUNDLED)


@pytest.mark.parametrize(("old", "new", "reason"), CASES["skypilot"])
def test_a_broken_line_of_skypilots_leaves_out_that_line_alone(tmp_path, old, new, reason):
    """A public list of 100,000 lines is not lost for one of them, and says which it is."""
    text = SKYPILOT.replace(old.format(INFO), new.format(INFO))
    assert text != SKYPILOT
    read = read_by_skypilot(text)
    assert read.left_out == {"no instance type, vCPUs or memory": 1, reason: 1}
    assert read.examples[reason].startswith("line ")
    assert {row.instance_type for row in read.rows} >= {"g9.xlarge"}


HEADER = "cloud,region,disk_type,price_per_gib_month,currency,as_of"
GOOD_DISK = "alibaba,cn-hangzhou,cloud_essd_pl1,0.707,CNY,2026-11-01"


def take_disks(folder: Path, *lines: str, name: str = "mine", header: str = HEADER):
    """Import lines; the catalogue with them."""
    file = folder / f"{name}.csv"
    file.write_text("\n".join([header, *lines]) + "\n")
    import_file(file, None, folder / "kept")
    return load_catalog(imports=folder / "kept")


def essd_price(catalog):
    return catalog.disks_of("alibaba").price(order("cloud_essd_pl1", 158), "cn-hangzhou")


def test_a_disk_price_of_the_users_own_counts_before_an_estimate_with_what_iops_cost_apart(tmp_path):
    assert essd_price(load_catalog()).kind == "estimated"
    price = essd_price(take_disks(tmp_path, GOOD_DISK))
    assert price.usd_per_hour == pytest.approx(158 * 0.1 / 730)
    assert price.as_of == date(2026, 11, 1)
    assert "CNY at 7.07" in price.source
    assert imports_in(tmp_path / "kept")[0].disk_prices == {"alibaba": 1}
    take_disks(tmp_path, GOOD_DISK)
    again = take_disks(tmp_path, GOOD_DISK.replace("0.707", "1.414"))
    assert essd_price(again).usd_per_hour == pytest.approx(158 * 0.2 / 730)
    with pytest.raises(UsageError, match="that import 'mine' tells too"):
        take_disks(tmp_path, GOOD_DISK, name="other")
    header = f"{HEADER},price_per_iops_month,price_per_mib_s_month,kind"
    row = "gcp,moon-1,pd-ssd,0.2,USD,2026-11-01,0.01,0.05,estimated"
    price = take_disks(tmp_path, row, header=header).disks_of("gcp").price(order("pd-ssd", 100), "moon-1")
    assert price.usd_per_hour == pytest.approx(100 * 0.2 / 730)
    assert price.kind == "estimated"
    file = Path(__file__).parents[3] / "docs/examples/disk_prices.csv"
    assert import_file(file, None, tmp_path).disk_prices == {"alibaba": 2}


@pytest.mark.parametrize(("line", "said"), table("imports")["disk_prices"])
def test_a_bad_line_refuses_the_whole_file(tmp_path, line, said):
    with pytest.raises(UsageError, match=said):
        take_disks(tmp_path, GOOD_DISK.replace("cn-hangzhou", "cn-beijing"), line)
    assert imports_in(tmp_path / "kept") == []
