"""`advisor catalog refresh --tracker URL`: fetched, then taken as an import is, or not at all."""

import json
from pathlib import Path

import pytest

from advisor.catalog import load_catalog
from advisor.catalog.overlay import own_imports
from advisor.cli.main import run
from tests.infra.live.listed import Listed

CONTENT = (Path(__file__).parents[2] / "data/price_files/latest.json").read_bytes()


@pytest.fixture
def tracker(listed, monkeypatch) -> Listed:
    monkeypatch.setenv("ADVISOR_TODAY", "2026-11-21")
    listed.files["/data/latest.json"] = CONTENT
    return listed


@pytest.fixture
def ask(capsys, tracker):
    def command(*more: str) -> tuple[int, str, str]:
        address = f"{tracker.url}/data/latest.json"
        code = run(["catalog", "refresh", "--tracker", address, *more])
        return code, *capsys.readouterr()

    return command


def kept() -> dict[str, bytes]:
    """What lies in the user's folder."""
    files = own_imports().glob("*.json") if own_imports().exists() else ()
    return {file.name: file.read_bytes() for file in files}


def test_prices_come_with_the_host_and_file_they_are_from(ask) -> None:
    code, out, err = ask("-o", "json")
    assert code == 0
    assert err == "asking 127.0.0.1\n"
    (imported,) = json.loads(out)["imports"]
    assert imported["refreshed"]["verda"] > 0
    price = load_catalog().price("8H100.80S.176V", "FIN-01", cloud="verda")
    assert (price.usd_per_hour, price.as_of.isoformat()) == (24.8, "2026-11-20")
    assert price.source == "127.0.0.1 latest.json (imported)"
    assert price.max_age_days == 30
    code, out, _ = ask()
    assert "Ask with --cloud" in out
    assert run(["catalog", "refresh", "--forget"]) == 0
    assert load_catalog().price("8H100.80S.176V", "FIN-01", cloud="verda") != price


@pytest.mark.parametrize("fault", ["throttle", "denied", "redirect", "garbage", "cut", "list"])
def test_what_cannot_be_fetched_or_read_changes_nothing(ask, tracker, fault: str) -> None:
    ask()
    before = kept()
    tracker.faults = [fault] * 9
    code, out, err = ask()
    assert code in (1, 2)
    assert out == ""
    assert len(err.splitlines()) == 2
    assert kept() == before


def test_a_file_without_end_is_cut(ask, monkeypatch) -> None:
    monkeypatch.setattr("advisor.infra.live.web.MOST_MIB", 0.0001)
    code, _, err = ask()
    assert code == 1
    assert "more than" in err
    assert kept() == {}


def test_an_address_that_others_could_change_on_the_way_is_refused(ask, capsys) -> None:
    assert run(["catalog", "refresh", "--tracker", "http://prices.example.org/latest.json"]) == 2
    assert "can be changed on the way" in capsys.readouterr().err
    assert ask("--show")[0] == 2
