"""`advisor catalog refresh` of AWS without credentials: its public list, on loopback."""

import json
import os
import signal
import subprocess
import sys
import threading

import pytest

from advisor.catalog import OfferQuery, load_catalog
from advisor.catalog.bundle import DATA_FOLDER
from advisor.domain import Market
from advisor.infra.live import aws, web
from tests.infra.live.aws_bulk import ADVISOR, FILE, INDEX, Bulk, advice, serving

COMMAND = ("catalog", "refresh", "-o", "json")


@pytest.fixture
def bulk(monkeypatch):
    """The snapshot's own prices of us-east-1, a tenth less; nobody has credentials."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("ADVISOR_TODAY", "2026-11-21")
    monkeypatch.setattr(web, "FIRST_PAUSE_SECONDS", 0.001)
    query = OfferQuery(cloud="aws", region="us-east-1", market=Market.ON_DEMAND, accelerated=True)
    offers = load_catalog(DATA_FOLDER).offers(query)
    prices = {offer.instance.name: 0.9 * offer.price.usd_per_hour for offer in offers if offer.closed is None}
    with serving(Bulk(prices)) as offer:
        monkeypatch.setenv("ADVISOR_AWS_URL", offer.url)
        yield offer


@pytest.fixture
def advised(bulk, monkeypatch):
    """The same, with the spot advisor."""
    monkeypatch.setenv("ADVISOR_AWS_SPOT_URL", bulk.url.removesuffix(INDEX) + ADVISOR)
    return bulk


def shown(ask, name, *options):
    code, out, _ = ask("catalog", "show", name, *options, "-o", "json")
    assert code == 0
    return json.loads(out)["prices"]["us-east-1"]


def endless():
    while True:
        yield b"x" * 2**16


@pytest.mark.parametrize("fault", ["cut", "endless line", "too much", "nothing"])
def test_a_list_that_is_not_whole_changes_nothing(bulk, ask, monkeypatch, fault) -> None:
    if fault == "cut":
        bulk.cut = True
    elif fault == "endless line":
        bulk.more = endless()
    elif fault == "too much":
        monkeypatch.setattr(aws, "MOST_MIB", 0.01)
    else:
        bulk.prices = {}
    code, out, err = ask(*COMMAND)
    assert (code, out) == (1, "")
    assert "AWS's public price list" in err
    assert shown(ask, "g4dn.xlarge")["as_of"] == "2026-07-20"


def test_without_credentials_the_public_list_has_the_prices_and_what_it_lacks_is_not_offered(
    bulk, ask
) -> None:
    code, _, err = ask("catalog", "refresh", "--market", "spot")
    assert (code, bulk.asked) == (1, [])
    assert "aws configure" in err
    assert "ADVISOR_AWS_SPOT_URL" in err
    code, out, err = ask(*COMMAND)
    assert code == 0, err
    prices = {row["instance_type"]: row for row in json.loads(out)["prices"]}
    assert {row["market"] for row in prices.values()} == {"on-demand"}
    assert prices["g4dn.xlarge"]["told"]["usd_per_hour"] == pytest.approx(0.9 * 0.526)
    assert bulk.asked == [INDEX, f"{FILE}.csv"]
    assert "no AWS credentials" in err
    assert "types it offers" not in err
    price = shown(ask, "g4dn.xlarge")
    assert (price["kind"], price["as_of"]) == ("list", "2026-11-21")
    assert price["usd_per_hour"] == pytest.approx(0.9 * 0.526)
    del bulk.prices["g5.4xlarge"]
    code, out, err = ask(*COMMAND)
    assert code == 0, err
    assert json.loads(out)["withdrawn"] == ["g5.4xlarge"]
    question = ("recommend", "--task", "training", "--model", "resnet50", "--region", "us-east-1")
    _, out, _ = ask(*question, "--explain-rejected", "-o", "json")
    (why,) = (row for row in json.loads(out)["rejected"] if row["instance_type"] == "g5.4xlarge")
    assert why["reason"] == "not_offered"
    assert why["not_orderable"] == {"status": "withdrawn", "as_of": "2026-11-21"}


def test_spot_is_the_price_of_today_less_the_saving_that_the_advisor_tells(advised, ask) -> None:
    """An estimate of that day with its error and its band of interruptions, in place of 2024's."""
    before = shown(ask, "g4dn.xlarge", "--market", "spot")
    assert before["as_of"] < "2025"
    code, out, err = ask(*COMMAND)
    assert code == 0, err
    assert advised.asked == [INDEX, f"{FILE}.csv", ADVISOR]
    price = shown(ask, "g4dn.xlarge", "--market", "spot")
    expected = 0.9 * 0.526 * 0.4
    assert (price["kind"], price["as_of"]) == ("estimated", "2026-11-21")
    band = [price[f"{name}usd_per_hour"] for name in ("low_", "", "high_")]
    assert band == pytest.approx([0.31 * expected, expected, 2.07 * expected])
    assert price["terms"] == "10 to 15 % interrupted within a month"
    text = {(row["instance_type"], row["market"]): row for row in json.loads(out)["prices"]}
    assert "no saving in us-east-1" in text["g5.xlarge", "spot"]["why"]
    assert text["g5.xlarge", "on-demand"]["told"]


def test_a_price_that_was_observed_lately_stays(advised, ask, monkeypatch) -> None:
    """The snapshot's own is 54 days old on that day, and is surer than an estimate."""
    monkeypatch.setenv("ADVISOR_TODAY", "2024-11-21")
    code, out, _ = ask(*COMMAND, "--market", "spot", "--instance", "g4dn.xlarge")
    assert code == 1
    (price,) = json.loads(out)["prices"]
    assert price["told"] is None
    assert "2024-09-28 is surer" in price["why"]


@pytest.mark.parametrize(
    "broken",
    [
        *(None, b"", b"<html>", b"[]", b"{}", b"[" * 10**6, b" " * (16 * 2**20 + 1)),
        *(b'{"spot_advisor": 7}', b'{"spot_advisor": {"us-east-1": []}}'),
        b'{"spot_advisor": {"us-east-1": {"Linux": [1]}}}',
        *(advice({"g4dn.xlarge": {"s": saving, "r": 0}}) for saving in (0, 100, -20, None, True)),
    ],
)
def test_without_sound_advice_on_demand_is_still_refreshed(advised, ask, broken) -> None:
    before = shown(ask, "g4dn.xlarge", "--market", "spot")
    advised.advice = broken
    code, out, err = ask(*COMMAND)
    assert code == 0, err
    assert shown(ask, "g4dn.xlarge")["as_of"] == "2026-11-21"
    assert shown(ask, "g4dn.xlarge", "--market", "spot") == before
    assert "AWS's public spot advisor" in err
    spot = [price for price in json.loads(out)["prices"] if price["market"] == "spot"]
    assert {price["told"] for price in spot} == {None}
    assert ask(*COMMAND, "--market", "spot")[0] == 1


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_who_ends_the_download_keeps_the_prices_of_before(advised, ask, sent) -> None:
    assert ask(*COMMAND)[0] == 0
    kept = shown(ask, "g4dn.xlarge")
    advised.prices = {name: 0.5 * usd for name, usd in advised.prices.items()}
    stalled = threading.Event()

    def stall():
        stalled.set()
        ended.wait(60)
        yield b""

    ended, advised.more = threading.Event(), stall()
    command = [sys.executable, "-m", "advisor", *COMMAND]
    try:
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as asking:
            assert stalled.wait(60)
            os.kill(asking.pid, sent)
            out, err = asking.communicate(timeout=60)
    finally:
        ended.set()
    assert asking.returncode == (130 if sent is signal.SIGINT else -signal.SIGKILL)
    assert out == b""
    assert b"Traceback" not in err
    assert shown(ask, "g4dn.xlarge") == kept
