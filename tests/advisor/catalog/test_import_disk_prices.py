"""A user's disk prices rank what could not be ranked, and hide no price of another origin."""

from datetime import date
from pathlib import Path

import pytest

from advisor.catalog import load_catalog
from advisor.catalog.importing import import_file, imports_in
from advisor.domain import DiskChoice, Task
from advisor.engine import Preparations, recommend
from advisor.errors import UsageError
from tests.advisor.catalog.builders import order
from tests.advisor.engine.plain_model import PlainModel
from tests.builders import network_question

HEADER = "cloud,region,disk_type,price_per_gib_month,currency,as_of"
GOOD = "alibaba,cn-hangzhou,cloud_essd_pl1,0.707,CNY,2026-11-01"
TODAY = date(2026, 11, 21)


def take(folder: Path, *lines: str, name: str = "mine", header: str = HEADER):
    """Import lines; the catalogue with them."""
    file = folder / f"{name}.csv"
    file.write_text("\n".join([header, *lines]) + "\n")
    import_file(file, None, folder / "kept")
    return load_catalog(imports=folder / "kept")


def ask(catalog):
    request = network_question(
        network="googlenet",
        task=Task.INFERENCE,
        target_throughput=100.0,
        cloud="alibaba",
        region="cn-hangzhou",
        disk=DiskChoice(type="cloud_essd_pl1"),
    )
    return recommend(request, Preparations(catalog, PlainModel()), today=TODAY)


def test_a_price_of_the_users_own_counts_before_an_estimate(tmp_path):
    """Yuan count at the catalogue's rate."""
    assert ask(load_catalog()).chosen.spec.disk.price.kind == "estimated"
    disk = ask(take(tmp_path, GOOD)).chosen.spec.disk
    assert disk.rate.type == "cloud_essd_pl1"
    assert disk.usd_per_hour == pytest.approx(disk.size_gib * 0.1 / 730)
    assert disk.price.as_of == date(2026, 11, 1)
    assert "CNY at 7.07" in disk.price.source
    assert imports_in(tmp_path / "kept")[0].disk_prices == {"alibaba": 1}


def test_what_iops_and_rate_cost_apart_counts(tmp_path):
    header = f"{HEADER},price_per_iops_month,price_per_mib_s_month,kind"
    row = "gcp,moon-1,pd-ssd,0.2,USD,2026-11-01,0.01,0.05,estimated"
    price = take(tmp_path, row, header=header).disks_of("gcp").price(order("pd-ssd", 100), "moon-1")
    assert price.usd_per_hour == pytest.approx(100 * 0.2 / 730)
    assert price.kind == "estimated"


def test_the_same_import_may_be_taken_again_and_another_may_not_tell_the_same(tmp_path):
    take(tmp_path, GOOD)
    again = take(tmp_path, GOOD.replace("0.707", "1.414"))
    assert ask(again).chosen.spec.disk.price.usd_per_hour == pytest.approx(158 * 0.2 / 730)
    with pytest.raises(UsageError, match="that import 'mine' tells too"):
        take(tmp_path, GOOD, name="other")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("aws,us-east-1,gp3,0.01,USD,2026-11-01", "known already"),
        ("oracle,home,premium,0.1,USD,2026-11-01", "disks are known of"),
        ("alibaba,cn-hangzhou,gp3,0.1,USD,2026-11-01", "no disk of alibaba; it has: cloud_eff"),
        ("alibaba,cn-hangzhou,cloud_ssd,0,USD,2026-11-01", "above 0"),
        ("alibaba,cn-hangzhou,cloud_ssd,-1,USD,2026-11-01", "above 0"),
        ("alibaba,cn-hangzhou,cloud_ssd,,USD,2026-11-01", "no price_per_gib_month"),
        ("alibaba,cn-hangzhou,cloud_ssd,1,EUR,2026-11-01", "as currency"),
        ("alibaba,cn-hangzhou,cloud_ssd,1,USD,yesterday", "as_of"),
        (f"{GOOD}\n{GOOD}", "second price"),
    ],
)
def test_a_bad_line_refuses_the_whole_file(tmp_path, line, said):
    with pytest.raises(UsageError, match=said):
        take(tmp_path, GOOD.replace("cn-hangzhou", "cn-beijing"), line)
    assert imports_in(tmp_path / "kept") == []


def test_the_example_is_taken(tmp_path):
    file = Path(__file__).parents[3] / "docs/examples/disk_prices.csv"
    assert import_file(file, None, tmp_path).disk_prices == {"alibaba": 2}


def test_azure_is_ranked_but_for_sizes_whose_facts_are_not_known():
    request = network_question(network="googlenet", task=Task.INFERENCE, cloud="azure", region="eastus")
    answer = recommend(request, Preparations(load_catalog(), PlainModel()), today=TODAY)
    assert answer.ranked
    assert answer.rejected_by_reason["facts_missing"] > 20
