"""No file lays a price over another machine or far from the known one; what was refreshed is read back."""

import json
import tempfile
from datetime import date, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from advisor.catalog import believed, load_catalog
from advisor.catalog.believed import OTHER_GPUS, OTHER_SIZE, TOO_FAR, why_not_believed
from advisor.catalog.importing import import_file
from advisor.catalog.overlay import Overlay, forget_overlay, keep_overlay, plain_cell, read_overlay
from advisor.catalog.providers.rows import UNKNOWN_TYPE
from advisor.domain import Market, Price
from advisor.errors import UsageError
from tests.rows import table

FILES = Path(__file__).parents[2] / "data" / "price_files"
DAY = date(2026, 11, 21)
BUNDLED = load_catalog()
HEADER = "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,SpotPrice,Region"
# What each file has beside the line in question: a price of today, to be taken.
GOOD = "g6.xlarge,L4,1.0,4.0,16.0,0.81,,us-east-1"


def take(folder, text, name="aws", **more):
    """Import a text; what came of it, and the catalogue with it."""
    file = folder / f"{name}.txt"
    file.write_text(text)
    kept = folder / "kept"
    result = import_file(file, name, kept, as_of=DAY, **more)
    return result, load_catalog(imports=kept)


SLIPS = table("imports")["slips"]


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_leaves_out_its_line_with_the_reason_and_an_example(tmp_path, slip):
    line, reason = SLIPS[slip]
    reason = getattr(believed, reason, reason)
    result, catalog = take(tmp_path, f"{HEADER}\n{line}\n{GOOD}\n")
    assert result.left_out == {reason: 1}
    assert result.refreshed == {"aws": 1}
    assert result.examples[reason]
    name, region = line.split(",")[0], line.split(",")[-1]
    for market in (Market.ON_DEMAND, Market.SPOT):
        known = BUNDLED.price(name, region, market, "aws")
        assert catalog.price(name, region, market, "aws") == known


def entry(name="g4dn.xlarge", ondemand="0.55", linux=None, **facts):
    """A type of ec2instances.info as it is known, but for the changes."""
    known = {"vCPU": 4, "memory": 16.0, "GPU": 1, "GPU_model": "NVIDIA T4 Tensor Core"}
    prices = {"us-east-1": {"linux": {"ondemand": ondemand} | (linux or {})}}
    return {"instance_type": name, "pricing": prices} | known | facts


GOOD_ENTRY = entry("g5.xlarge", "1.05", GPU_model="NVIDIA A10G")


@pytest.mark.parametrize(
    ("slip", "reason"),
    [
        (entry(ondemand="0.00526"), TOO_FAR),
        (entry(ondemand="1.99"), TOO_FAR),
        (entry(ondemand="N/A", linux={"spot_min": "0.016"}), TOO_FAR),
        (entry(ondemand="N/A", linux={"spot_min": "1.6"}), TOO_FAR),
        (entry(ondemand="N/A", linux={"reserved": {"yrTerm1Standard.noUpfront": "3.3"}}), TOO_FAR),
        (entry(GPU=4), OTHER_GPUS),
        (entry(GPU_model="NVIDIA A10G"), OTHER_GPUS),
        (entry(vCPU=8), OTHER_SIZE),
        (entry(memory=16384), OTHER_SIZE),
        (entry("g4dn.9xlarge"), UNKNOWN_TYPE),
    ],
)
def test_ec2instances_lays_nothing_over_another_type_or_far_from_its_price(tmp_path, slip, reason):
    result, catalog = take(tmp_path, json.dumps([slip, GOOD_ENTRY]))
    assert (result.left_out, result.refreshed) == ({reason: 1}, {"aws": 1})
    assert catalog.price("g5.xlarge", "us-east-1").usd_per_hour == 1.05
    known = BUNDLED.price("g4dn.xlarge", "us-east-1", cloud="aws")
    assert catalog.price("g4dn.xlarge", "us-east-1", cloud="aws") == known


def skypilot(usd):
    return f"{HEADER}\ng4dn.xlarge,T4,1.0,4.0,16.0,{usd!r},,us-east-1\n{GOOD}\n"


def ec2instances(usd):
    return json.dumps([entry(ondemand=usd), GOOD_ENTRY])


@given(st.floats(0.01, 100), st.sampled_from([skypilot, ec2instances]), st.booleans())
def test_three_times_either_way_is_the_bound_of_every_format(tmp_path_factory, ratio, of, accept):
    usd = 0.526 * ratio
    result, catalog = take(tmp_path_factory.mktemp("file"), of(usd), accept_implausible=accept)
    taken = accept or 1 / 3 <= ratio <= 3
    expected = usd if taken else 0.526
    assert catalog.price("g4dn.xlarge", "us-east-1").usd_per_hour == pytest.approx(expected)
    assert result.left_out == ({} if taken else {TOO_FAR: 1})


def test_no_market_without_a_known_price_and_no_small_steps_lead_far_from_the_snapshot(tmp_path):
    def is_believed(usd, market, region="us-east-9"):
        return not why_not_believed(usd, BUNDLED, "aws", "g5.xlarge", region, market)

    assert [is_believed(usd, Market.SPOT) for usd in (0.05, 0.1, 1.0, 1.2)] == [False, True, True, False]
    assert [is_believed(usd, Market.COMMITMENT_3Y) for usd in (0.2, 0.4, 1.1)] == [False, True, False]
    assert [is_believed(usd, Market.ON_DEMAND) for usd in (0.3, 0.5, 2.9, 3.2)] == [False, True, True, False]
    # 1.006, 0.40, then 0.15; once that is accepted, the next is held to it alone.

    def step(usd, **more):
        return take(tmp_path, f"{HEADER}\ng5.xlarge,A10G,1.0,4.0,16.0,{usd},,us-east-1\n", **more)

    step(0.4)
    with pytest.raises(UsageError, match=TOO_FAR):
        step(0.15)
    step(0.15, accept_implausible=True)
    _, catalog = step(0.06)
    assert catalog.price("g5.xlarge", "us-east-1", cloud="aws").usd_per_hour == 0.06
    with pytest.raises(UsageError, match=TOO_FAR):
        step(0.01)


def test_the_command_counts_shows_an_example_and_takes_them_when_asked(tmp_path, shown, answer):
    file = tmp_path / "vms.csv"
    file.write_text(f"{HEADER}\n{SLIPS['a tenth'][0]}\n{GOOD}\n")
    command = ["catalog", "import", str(file), "--name", "aws", "--as-of", "2026-11-21"]
    out = shown(*command)
    assert f"aws: 1 left out: {TOO_FAR}, such as p5.4xlarge in us-east-1 (on-demand): " in out
    assert "$0.688/h is 0.1 times the known $6.880/h" in out
    assert "--accept-implausible takes it" in out
    (document,) = answer(*command, "--accept-implausible")["imports"]
    assert (document["refreshed"], document["left_out_by_reason"]) == ({"aws": 2}, {})


GIB_AS_MIB = "\"{'Gpus': [{'Name': '%s', 'MemoryInfo': {'SizeInMiB': %s}}]}\""


@pytest.mark.parametrize(
    ("card", "mib", "sheet"),
    [
        *[(name, size, name) for name, size in (("L4", 24), ("A16", 16), ("A10G", 22888), ("P4", 7611))],
        *[("A100", 80, "A100-PCIE-80GB"), ("H200", 141, "H200-NVL-141GB"), ("A6000", 48, "RTX A6000")],
        ("RTXPRO6000", 96, "RTX PRO 6000 Blackwell Server"),
    ],
)
def test_gpu_memory_in_the_wrong_unit_is_read_as_what_it_is_and_told(tmp_path, card, mib, sheet):
    """GiB in a field called MiB, in every row of a published catalogue."""
    text = f"{HEADER},GpuInfo\nbox,{card},1.0,8.0,48,0.95,,paris,{GIB_AS_MIB % (card, mib)}\n"
    result, catalog = take(tmp_path, text, "shadeform")
    assert catalog.instance("box", "shadeform").gpu_name == sheet
    assert result.read_otherwise == (
        {} if mib > 1024 else {"GPU memory below 1 GiB, in a field of MiB, as GiB": 1}
    )


@pytest.mark.parametrize(
    ("card", "mib"), [("L4", 16), ("L4", 1), ("A100", 24576), ("H100", 8388608), ("T4", 81920)]
)
def test_gpu_memory_that_fits_no_card_of_the_name_leaves_out_the_line(tmp_path, card, mib):
    good = f"good,L4,1.0,8.0,48,0.95,,paris,{GIB_AS_MIB % ('L4', 24576)}\n"
    text = f"{HEADER},GpuInfo\nbox,{card},1.0,8.0,48,0.95,,paris,{GIB_AS_MIB % (card, mib)}\n{good}"
    result, catalog = take(tmp_path, text, "shadeform")
    assert catalog.type_names("shadeform") == ("good",)
    ((reason, example),) = result.examples.items()
    assert "memory" in reason or "SizeInMiB" in example
    assert example.startswith("line 2")


NAMES = ["g4dn.xlarge", "g5.xlarge", "p4d.24xlarge", "p2.xlarge", "c7i.large"]
REGIONS = ["us-east-1", "eu-west-1", "ca-west-1", "us-west-2"]
MARKETS = [Market.ON_DEMAND, Market.SPOT]
keys = st.tuples(st.sampled_from(NAMES), st.sampled_from(REGIONS), st.sampled_from(MARKETS))
texts = st.sampled_from(["", "zone a", "zone b; 5 to 10 %", "one, two", "a\nb \x1b[2J"])


def price(market: Market, usd: float, days: int, terms: str) -> Price:
    kind = "observed" if market is Market.SPOT else "list"
    day = DAY + timedelta(days=days)
    return Price(usd_per_hour=usd, kind=kind, as_of=day, source="AWS", terms=terms)


def plain(item: Price | None) -> Price | None:
    """As tables hold it."""
    return item and replace(item, terms=plain_cell(item.terms))


def uncapped(item: Price | None) -> Price | None:
    """Without what a price on demand says of one on the spot market."""
    return item and replace(item, high=1.0, ceiling=None)


prices = st.builds(
    lambda prices, offers: Overlay(
        {key: price(key[2], *rest) for key, rest in prices.items()},
        {key: (there, DAY) for key, there in offers.items()},
    ),
    st.dictionaries(keys, st.tuples(st.floats(1e-6, 1e6), st.integers(0, 9), texts), max_size=12),
    st.dictionaries(st.tuples(st.sampled_from(NAMES), st.sampled_from(REGIONS)), st.booleans(), max_size=6),
)


@given(prices)
def test_each_price_is_the_newest_that_is_known(refreshed: Overlay) -> None:
    catalog = load_catalog(live={"aws": refreshed})
    gone = {key for key, (there, _) in refreshed.offerings.items() if not there}
    for name in NAMES:
        for region in REGIONS:
            there, _ = refreshed.offerings.get((name, region), (None, None))
            was = BUNDLED.is_offered(name, region, "aws")
            assert catalog.is_offered(name, region, "aws") == (was if there is None else there)
            for market in MARKETS:
                known = BUNDLED.price(name, region, market, "aws")
                known = refreshed.prices.get((name, region, market), known)
                expected = None if (name, region) in gone else known
                found = catalog.price(name, region, market, "aws")
                assert uncapped(found) == uncapped(plain(expected))
                whole = catalog.price(name, region, Market.ON_DEMAND, "aws")
                if market is Market.SPOT and found and whole and found.usd_per_hour:
                    assert found.high_usd_per_hour <= max(found.usd_per_hour, whole.usd_per_hour) * 1.0001


@given(prices, prices)
def test_what_is_kept_is_read_back_and_newer_answers_count(first: Overlay, second: Overlay) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        keep_overlay(folder, "aws", first)
        keep_overlay(folder, "aws", second)
        both = first.updated_with(second)
        kept = read_overlay(folder, "aws")
        assert kept.offerings == both.offerings
        assert kept.prices.keys() == both.prices.keys()
        for key, item in kept.prices.items():
            assert item == plain(both.prices[key])
        assert forget_overlay(folder, "aws")
        assert not forget_overlay(folder, "aws")
        assert not read_overlay(folder, "aws")
