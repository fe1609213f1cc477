"""Public price files are read as they are, and never make a price of what is none."""

import json
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.catalog import load_catalog
from advisor.catalog.importing import import_file
from advisor.catalog.overlay import import_names
from advisor.catalog.providers.gpu_hours import PRICES, SECOND_PRICE, hours_in
from advisor.catalog.providers.rows import PriceFile, rows_with
from advisor.domain import Market
from advisor.errors import UsageError
from tests.advisor.catalog.builders import order
from tests.rows import table

FILES = Path(__file__).parents[2] / "data" / "price_files"
DAY = date(2026, 11, 21)
BUNDLED = load_catalog()


def take(folder, file, **more):
    """Import a file; what came of it, and the catalogue with it."""
    kept = folder / "kept"
    result = import_file(file, None, kept, **more)
    return result, load_catalog(imports=kept)


def written(folder, document, name="prices.json"):
    """A file with this document."""
    file = folder / name
    file.write_text(json.dumps(document) if not isinstance(document, str) else document)
    return file


def test_a_tracker_prices_known_types_anew_brings_new_clouds_and_counts_what_it_leaves_out(tmp_path):
    result, catalog = take(tmp_path, FILES / "latest.json")
    eight = catalog.price("8H100.80S.176V", "FIN-01", cloud="verda")
    assert (eight.usd_per_hour, eight.kind, eight.as_of.isoformat()) == (24.8, "list", "2026-11-20")
    assert catalog.price("1x-l40s.secure", "global").usd_per_hour == 0.95
    community = catalog.price("1x-l40s.community", "global")
    assert (community.usd_per_hour, community.kind) == (0.75, "observed")
    assert result.offers == {"somecloud": 1}
    assert catalog.price("1x-a100-sxm-80-80GB", "global", cloud="somecloud").usd_per_hour == 1.2
    # Lambda's one-GPU H100 costs more than an eighth of eight: it keeps its own price.
    item, eight = ("gpu_1x_h100_sxm5", "gpu_8x_h100_sxm5")
    assert catalog.price(eight, "us-east-1", cloud="lambda").usd_per_hour == pytest.approx(30.32)
    assert catalog.price(item, "us-east-1") == BUNDLED.price(item, "us-east-1")
    # Serverless, euros, and 100 dollars for an L40: each with its reason.
    assert result.left_out == {
        "not the price of an instance by the hour (serverless and others)": 1,
        "the price is not in US dollars": 1,
        "the price differs more than 3 times from the known one": 1,
    }
    assert catalog.price("n3-L40x1", "CANADA-1") == BUNDLED.price("n3-L40x1", "CANADA-1")
    document = json.loads((FILES / "latest.json").read_text())
    document["generated_at"] = "2026-11-21"
    document["offers"][0]["usd_per_gpu_hour"] = 2.9
    _, catalog = take(tmp_path, written(tmp_path, document, "latest.json"))
    result = catalog.price("1H100.80S.30V", "FIN-01")
    assert (result.usd_per_hour, result.as_of) == (2.9, DAY)


@pytest.mark.parametrize("field", ["usd_per_hour", "usd_per_gpu_hour"])
def test_a_row_of_a_size_prices_types_of_that_size_alone(tmp_path, field):
    def text(provider, gpu, count, usd_per_gpu):
        usd = usd_per_gpu * (count if field == "usd_per_hour" else 1)
        each = {"vcpusPerGpu": 20, "ramGbPerGpu": 100}
        return {"provider": provider, "gpu": gpu, "gpu_count": count, field: usd, **each}

    told = {
        ("Lambda", "A100 SXM"): {8: 1.625, 1: 2.0},
        ("Lambda", "H100"): {8: 2.9},
        ("new", "H100"): {8: 2.5, 1: 3.0, 0.5: 3.0},
    }
    rows = [text(*what, *price) for what, prices in told.items() for price in prices.items()]
    document = {"generated_at": "2026-11-20", "rows": rows}
    result, catalog = take(tmp_path, written(tmp_path, document))
    usd = {("gpu_1x_a100_sxm4", "us-east-1"): 2.0, ("gpu_8x_a100", "us-east-1"): 13.0}
    usd |= {("8x-H100", "global"): 20.0, ("1x-H100", "global"): 3.0}
    assert {sold: catalog.price(*sold).usd_per_hour for sold in usd} == usd
    known = ("gpu_1x_h100_pcie", "us-east-1")
    assert catalog.price(*known, cloud="lambda") == BUNDLED.price(*known, cloud="lambda")
    eight = catalog.instance("8x-H100", "new")
    assert (eight.gpu_count, eight.vcpus, eight.memory_mib) == (8, 160, 800 * 1024)
    assert result.left_out == {"the price is of part of a GPU, or of more GPUs than any machine has": 1}


def test_offerings_with_vcpus_and_ram_become_types_that_can_be_judged(tmp_path):
    _, catalog = take(tmp_path, FILES / "offerings.json")
    name = "1x-NVIDIA-L4-24GB"
    instance = catalog.instance(name, "packetai")
    assert (instance.gpu_name, instance.vcpus, instance.memory_mib) == ("L4", 8, 32768)
    assert catalog.price(name, "global", Market.SPOT).usd_per_hour == 0.1


def test_ec2instances_prices_known_types_on_every_market_it_tells(tmp_path):
    result, catalog = take(tmp_path, FILES / "instances.json", as_of=DAY)
    usd = {Market.ON_DEMAND: 1.006, Market.SPOT: 0.45, Market.COMMITMENT_1Y: 0.6338}
    for market, expected in usd.items():
        price = catalog.price("g5.xlarge", "us-east-1", market)
        assert (price.usd_per_hour, price.as_of) == (expected, DAY)
    assert (result.refreshed, result.left_out.total()) == ({"aws": 4}, 1)


def row(**changes):
    """A tracker's row that is good but for the changes; None takes a field out."""
    good = {"provider": "verda", "gpu": "h100-sxm", "usd_per_gpu_hour": 3.0, "date": "2026-11-20"}
    return {name: value for name, value in (good | changes).items() if value is not None}


def test_of_two_prices_of_one_card_one_counts_and_the_other_is_told(tmp_path):
    both = [row(usd_per_gpu_hour=usd, provider=cloud) for cloud in ("verda", "crusoe") for usd in (3.9, 4.9)]
    result, catalog = take(tmp_path, written(tmp_path, [*both, row(provider="any")]))
    assert catalog.price("1x-h100-sxm", "global", cloud="crusoe").usd_per_hour == 3.9
    assert catalog.price("1H100.80S.30V", "FIN-01").usd_per_hour == 3.9
    assert sorted(result.left_out.values()) == [1, 2]
    assert {reason for reason, count in result.left_out.items() if count == 2} == {SECOND_PRICE}


words = ["verda", "h100-sxm", "USD", "EUR", "spot", "2026-11-20", "0", "1.5", "$2"]
numbers = st.integers(-5, 10**30) | st.floats(allow_nan=False)
scalars = st.none() | st.booleans() | numbers | st.text(max_size=8) | st.sampled_from(words)
PRICE_FIELDS = ("usd_per_gpu_hour", "price", "currency", "kind", "isSpot")
ROW_FIELDS = (*PRICE_FIELDS, "vram_gb", "date", "vcpus", "gpu_count")
names = st.sampled_from(
    ("provider", "gpu", "min_gpus", "instance_type", "pricing", "linux", "ondemand", *ROW_FIELDS)
)
nested = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=6),
    max_leaves=25,
)
rows = st.fixed_dictionaries(
    {"provider": st.sampled_from(["verda", "runpod", "new", "a,b"]), "gpu": st.text(min_size=1)},
    optional=dict.fromkeys((*ROW_FIELDS, "ram_gb"), scalars),
)
types = st.fixed_dictionaries({"instance_type": st.sampled_from(["g5.xlarge", "x"]), "pricing": nested})
documents = nested | st.lists(rows, max_size=3) | st.lists(types, max_size=2)


@given(documents)
def test_any_json_is_an_error_or_prices_above_0_in_dollars(tmp_path_factory, document):
    """Never a traceback, a price of 0 or one of an unnamed currency; what is refused leaves nothing."""
    folder = tmp_path_factory.mktemp("any")
    try:
        import_file(written(folder, document), None, folder / "kept", as_of=DAY)
    except UsageError:
        assert import_names(folder / "kept") == []
    try:
        file = PriceFile(path=Path("a.json"), name="a", text=json.dumps(document), as_of=DAY)
        hours, _ = hours_in(file)
    except UsageError:
        return
    assert all(0 < hour.usd < float("inf") for hour in hours)
    text = {row.path: row.fields for row in rows_with(document, PRICES)}
    for hour in hours:
        currency = text[hour.path].get("currency")
        assert currency in (None, "USD") or not isinstance(currency, str) or not currency.strip()


def facts(folder, *lines):
    """A file of facts."""
    file = folder / "facts.csv"
    file.write_text("\n".join(["cloud,fact,value,low,high,why", *lines]) + "\n")
    return file


def test_a_measured_fact_replaces_what_is_assumed_and_a_local_disk_that_was_found_is_offered(tmp_path):
    lines = ["lambda,volume.read_mib_s,900,800,1000,probe", "lambda,volume.read_iops,9000,,,probe"]
    _, catalog = take(tmp_path, facts(tmp_path, *lines))
    rate = catalog.disks_of("lambda").rate(order("volume", 500))
    assert (rate.read_mib_per_second, rate.read_iops) == (900, 9000)
    assert (rate.low, rate.high) == pytest.approx((800 / 900, 1000 / 900))
    assert catalog.disks_of("verda").rate(order("volume", 500)).read_mib_per_second == 200
    lines = ["lambda,local_disk_gb,1400,,,df", "lambda,local_disk_read_iops,500000,,,probe"]
    _, catalog = take(tmp_path, facts(tmp_path, *lines))
    instance = catalog.instance("gpu_1x_a10")
    assert instance.instance_store_gib == pytest.approx(1304, abs=1)
    assert instance.instance_store_read_iops == 500_000


@pytest.mark.parametrize(("line", "reason"), table("imports")["facts"])
def test_a_bad_fact_refuses_the_file_with_its_line(tmp_path, line, reason):
    with pytest.raises(UsageError, match=rf"line 2 .*{reason}"):
        take(tmp_path, facts(tmp_path, line))


def test_skypilot_prices_types_of_a_known_cloud(tmp_path):
    file = tmp_path / "lambda.csv"
    file.write_text((FILES / "vms_v9.csv").read_text())
    result, catalog = take(tmp_path, file, as_of=DAY)
    assert catalog.price("gpu_1x_a10", "us-east-1").usd_per_hour == 1.19
    assert result.refreshed == {"lambda": 1}
