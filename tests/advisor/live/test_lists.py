"""`advisor catalog refresh` of Azure, Google Cloud and a tracker, and `recommend --live`, on loopback."""

import json
from pathlib import Path

import pytest

from advisor.catalog import load_catalog
from advisor.catalog.overlay import own_imports
from tests.advisor.live.lists import AZURE_REGION, GCP_REGION, fill_azure, fill_gcp
from tests.advisor.render.schemas import assert_keeps
from tests.infra.live.listed import AZURE, GCP, KEY, Listed

QUESTION = ["recommend", "--task", "inference", "--model", "googlenet", "--cloud", "gcp"]
LIVE = [*QUESTION, "--region", GCP_REGION, "--target-throughput", "500", "--live", "-o", "json"]
GCP_COMMAND = ["catalog", "refresh", "--cloud", "gcp", "--region", GCP_REGION]
AZURE_COMMAND = ["catalog", "refresh", "--cloud", "azure", "--region", AZURE_REGION]


@pytest.fixture
def lists(listed, monkeypatch) -> Listed:
    """Both lists as the snapshot says, on the day of the tests."""
    monkeypatch.setenv("ADVISOR_TODAY", "2026-11-21")
    monkeypatch.setenv("ADVISOR_AZURE_URL", listed.url + AZURE)
    monkeypatch.setenv("ADVISOR_GCP_URL", listed.url + GCP)
    monkeypatch.setenv("ADVISOR_GCP_KEY", KEY)
    monkeypatch.setattr("advisor.answers.live.checking.TOTAL_SECONDS", 200.0)
    return listed


def test_prices_of_both_clouds_are_kept_apart_and_used_together(lists, ask) -> None:
    fill_gcp(lists, 0.9)
    code, out, err = ask(*GCP_COMMAND, "-o", "json")
    assert code == 0
    document = json.loads(out)
    assert_keeps(document, "refresh")
    assert document["cloud"] == "gcp"
    assert all(price["changed"] for price in document["prices"])
    assert "Google's price list: page" not in err
    sizes = fill_azure(lists, 0.9)
    code, out, err = ask(*AZURE_COMMAND)
    assert code == 0
    assert f"{2 * len(sizes)} of {2 * len(sizes)} prices taken on 2026-11-21" in out
    assert f"on-demand prices: {len(sizes)} of {len(sizes)}" in err
    for cloud, region in (("gcp", GCP_REGION), ("azure", AZURE_REGION)):
        listing = ("catalog", "list", "--cloud", cloud, "--region", region, "--gpu", "A100")
        _, listed, _ = ask(*listing, "--market", "on-demand", "-o", "json")
        offers = json.loads(listed)["offers"]
        assert {price["price"]["as_of"] for price in offers} == {"2026-11-21"}
        assert {price["price"]["kind"] for price in offers} == {"list"}
    _, shown, _ = ask("catalog", "refresh", "--show")
    assert {line.split()[0] for line in shown.splitlines()[1:]} == {"azure", "gcp"}
    assert ask("catalog", "refresh", "--forget", "--cloud", "gcp")[0] == 0
    assert kept_files().keys() == {"azure.refreshed.json"}


@pytest.mark.parametrize("fault", ["throttle", "denied", "redirect", "garbage", "cut", "deep"])
@pytest.mark.parametrize("command", [GCP_COMMAND, AZURE_COMMAND])
def test_a_list_that_fails_leaves_all_as_it_was(lists, ask, command, fault) -> None:
    fill_gcp(lists)
    fill_azure(lists)
    ask(*command)
    before = kept_files()
    lists.faults = [fault] * 9
    code, out, err = ask(*command)
    assert (code, out) == (1, "")
    assert len([line for line in err.splitlines() if line.startswith("advisor: ")]) <= 1
    assert before
    assert kept_files() == before


def test_an_empty_list_changes_nothing_and_another_address_is_asked_in_place_of_the_clouds(
    lists, ask, monkeypatch
) -> None:
    code, out, err = ask(*AZURE_COMMAND)
    assert code == 1
    assert "the price list has no on-demand price in westeurope" in out
    assert "Azure gave none of the" in err
    assert kept_files() == {}
    monkeypatch.setenv("ADVISOR_AZURE_URL", "http://127.0.0.1:9/nobody")
    fill_azure(lists)
    lists.page = 5
    assert ask(*AZURE_COMMAND, "--url", lists.url + AZURE)[0] == 0


def test_the_key_is_neither_printed_nor_stored(lists, ask, monkeypatch) -> None:
    fill_gcp(lists)
    monkeypatch.delenv("ADVISOR_GCP_KEY")
    code, _, err = ask(*GCP_COMMAND)
    assert code == 1
    assert "ADVISOR_GCP_KEY" in err
    assert lists.asked == []
    monkeypatch.setenv("MY_KEY", KEY)
    code, out, err = ask(*GCP_COMMAND, "--key-variable", "MY_KEY")
    assert code == 0
    assert KEY not in f"{out}{err}{kept_files()}"
    assert lists.keys == [KEY]


def test_live_prices_of_google_decide(lists, ask) -> None:
    fill_gcp(lists, 1.1)
    code, out, err = ask(*LIVE)
    document = json.loads(out)
    assert code == 0
    assert "asking Google Cloud about" in err
    checked = {row["instance_type"]: row for row in document["live"]["checked"]}
    for spec in [document["recommendation"], *document["alternatives"]][:3]:
        assert spec["price"]["as_of"] == "2026-11-21"
        told, before = (checked[spec["instance_type"]][when]["usd_per_hour"] for when in ("told", "before"))
        assert told == pytest.approx(1.1 * before, rel=1e-5)
    assert document["live"]["warnings"] == []


CONTENT = (Path(__file__).parents[2] / "data/price_files/latest.json").read_bytes()


@pytest.fixture
def tracker(lists) -> list[str]:
    lists.files["/data/latest.json"] = CONTENT
    return ["catalog", "refresh", "--tracker", f"{lists.url}/data/latest.json"]


def kept_files() -> dict[str, bytes]:
    """What lies in the user's folder."""
    files = own_imports().glob("*.json") if own_imports().exists() else ()
    return {file.name: file.read_bytes() for file in files}


def test_prices_come_with_the_host_and_file_they_are_from(tracker, ask) -> None:
    code, out, err = ask(*tracker, "-o", "json")
    assert code == 0
    assert err == "asking 127.0.0.1\n"
    (imported,) = json.loads(out)["imports"]
    assert imported["refreshed"]["verda"] > 0
    price = load_catalog().price("8H100.80S.176V", "FIN-01", cloud="verda")
    assert (price.usd_per_hour, price.as_of.isoformat(), price.max_age_days) == (24.8, "2026-11-20", 30)
    assert price.source == "127.0.0.1 latest.json (imported)"
    assert "Ask with --cloud" in ask(*tracker)[1]
    assert ask("catalog", "refresh", "--forget")[0] == 0
    assert load_catalog().price("8H100.80S.176V", "FIN-01", cloud="verda") != price


@pytest.mark.parametrize("fault", ["throttle", "denied", "redirect", "garbage", "cut", "list"])
def test_what_cannot_be_fetched_or_read_changes_nothing(lists, tracker, ask, fault: str) -> None:
    ask(*tracker)
    before = kept_files()
    lists.faults = [fault] * 9
    code, out, err = ask(*tracker)
    assert (code in (1, 2), out, len(err.splitlines()), kept_files()) == (True, "", 2, before)
