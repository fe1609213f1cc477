"""`advisor catalog refresh` of AWS without credentials: its public list, on loopback."""

from __future__ import annotations

import json

import pytest

from advisor.catalog import OfferQuery, load_catalog
from advisor.catalog.files import DATA_FOLDER
from advisor.cli.main import run
from advisor.domain import Market
from advisor.infra.live import aws_public, web
from tests.infra.live.aws_bulk import FILE, INDEX, Bulk, serving

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
    prices = {
        one.instance.name: 0.9 * one.price.usd_per_hour for one in offers if one.closed is None
    }
    with serving(Bulk(prices)) as one:
        monkeypatch.setenv("ADVISOR_AWS_URL", one.url)
        yield one


@pytest.fixture
def ask(capsys):
    def command(*arguments):
        code = run(list(arguments))
        return code, *capsys.readouterr()

    return command


def shown(ask, name):
    code, out, _ = ask("catalog", "show", name, "-o", "json")
    assert code == 0
    return json.loads(out)["prices"]["us-east-1"]


def test_who_has_no_credentials_gets_the_prices_of_the_public_list(bulk, ask) -> None:
    """Of a type's many rows the one that is Linux, shared, used, on demand, in the region."""
    code, out, err = ask(*COMMAND)
    assert code == 0, err
    told = {one["instance_type"]: one for one in json.loads(out)["prices"]}
    assert {one["market"] for one in told.values()} == {"on-demand"}
    assert told["g4dn.xlarge"]["told"]["usd_per_hour"] == pytest.approx(0.9 * 0.526)
    assert bulk.asked == [INDEX, f"{FILE}.csv"]
    assert "no AWS credentials" in err
    price = shown(ask, "g4dn.xlarge")
    assert (price["kind"], price["as_of"]) == ("list", "2026-11-21")
    assert price["usd_per_hour"] == pytest.approx(0.9 * 0.526)


def test_a_type_that_the_list_no_longer_has_is_not_offered_from_that_day(bulk, ask) -> None:
    """It was offered and priced in the snapshot."""
    del bulk.prices["g5.4xlarge"]
    code, out, err = ask(*COMMAND)
    assert code == 0, err
    assert json.loads(out)["withdrawn"] == ["g5.4xlarge"]
    asked = ("recommend", "--task", "training", "--model", "resnet50", "--region", "us-east-1")
    _, out, _ = ask(*asked, "--explain-rejected", "-o", "json")
    (why,) = (one for one in json.loads(out)["rejected"] if one["instance_type"] == "g5.4xlarge")
    assert why["reason"] == "not_offered"
    assert why["not_orderable"] == {"status": "withdrawn", "as_of": "2026-11-21"}


def test_a_price_three_times_off_is_refused_with_both_numbers(bulk, ask) -> None:
    bulk.prices["g6.xlarge"] *= 4
    code, out, _ = ask(*COMMAND)
    assert code == 0
    (price,) = (one for one in json.loads(out)["prices"] if one["instance_type"] == "g6.xlarge")
    assert price["told"] is None
    assert "times the known" in price["why"]
    assert shown(ask, "g6.xlarge")["as_of"] == "2026-07-20"


def endless():
    while True:
        yield b"x" * 2**16


@pytest.mark.parametrize("fault", ["cut", "endless line", "too much", "nothing"])
def test_a_list_that_is_not_whole_changes_nothing(bulk, ask, monkeypatch, fault) -> None:
    """Each is told in one line, and the snapshot stays."""
    if fault == "cut":
        bulk.cut = True
    elif fault == "endless line":
        bulk.more = endless()
    elif fault == "too much":
        monkeypatch.setattr(aws_public, "MOST_MIB", 0.01)
    else:
        bulk.prices = {}
    code, out, err = ask(*COMMAND)
    assert (code, out) == (1, "")
    assert "AWS's public price list" in err
    assert shown(ask, "g4dn.xlarge")["as_of"] == "2026-07-20"


def test_spot_needs_credentials_and_says_so(bulk, ask) -> None:
    code, _, err = ask("catalog", "refresh", "--market", "spot")
    assert code == 1
    assert "aws configure" in err
    assert bulk.asked == []
