"""`advisor catalog sources`: every origin with its date, and how many prices rest on it."""

from pathlib import Path

import pytest

from advisor.catalog import OfferQuery, load_catalog

EXAMPLE = Path(__file__).parents[3] / "docs/examples/free_services.csv"


@pytest.fixture
def told(answer):
    return lambda: {row["source"]: row for row in answer("catalog", "sources")["sources"]}


@pytest.mark.slow
def test_every_price_rests_on_a_source_that_is_shown(told, monkeypatch):
    """Prices of instances and of disks, in euros too, counted one by one."""
    monkeypatch.setenv("ADVISOR_EUR_PER_USD", "0.9")
    catalog = load_catalog()
    offers, query = catalog.offers(OfferQuery(cloud="any")), OfferQuery(cloud="any")
    counted = len(offers) + len(catalog.partial_offers(query))
    for cloud in catalog.disk_clouds:
        disks = catalog.disks_of(cloud)
        counted += sum(len(disks._by_region[region]) for region in disks._by_region)
    assert sum(row["prices"] for row in told().values()) == counted


def test_age_counts_against_the_limit_of_prices_and_facts_have_none(told, monkeypatch):
    """The same source is fresh on one day and too old a year later."""
    monkeypatch.setenv("ADVISOR_TODAY", "2026-08-10")
    now = told()["gcp-fd66b26f"]
    assert (now["age_days"], now["too_old"], now["licence"]) == (11, False, "Apache-2.0")
    monkeypatch.setenv("ADVISOR_TODAY", "2027-09-01")
    later = told()
    assert later["gcp-fd66b26f"]["too_old"] is True
    assert (later["gpu-sheets"]["max_age_days"], later["gpu-sheets"]["too_old"]) == (None, False)


def test_what_the_user_imported_is_among_them(told, ask):
    """With the count of its own prices."""
    before = told()
    assert ask("catalog", "import", str(EXAMPLE))[0] == 0
    (own,) = [row for name, row in told().items() if name not in before][:1]
    assert own["licence"] == "the user's"
    assert own["prices"] >= 1


def test_the_table_has_a_line_for_each_name_and_fits_a_terminal(shown, told):
    """Of sources with one name the oldest counts; the licence stands beside what rests on it."""
    out = shown("catalog", "sources")
    lines = out.splitlines()
    assert max(map(len, lines)) <= 100
    names = [line.partition("  ")[0] for line in lines[1 : lines.index("")]]
    assert len(set(names)) == len(names)
    retired = [row for row in told().values() if row["part"] == "AWS retired types"]
    (line,) = (line for line in lines if line.startswith("AWS retired types"))
    assert len(retired) > 5
    assert min(row["as_of"] for row in retired) in line
    (line,) = (line for line in lines if line.startswith("CPU and GPU measurements"))
    assert line.endswith("CC BY-SA 4.0")


def test_origins_are_named_where_they_are_asked_for(shown):
    assert "sc-inspector-data@" not in shown("catalog", "sources")
    out = shown("catalog", "sources", "--origins")
    assert "CPU and GPU measurements, 2026-06-11: SpareCores/sc-inspector-data@" in out
    assert max(map(len, out.splitlines())) <= 100


def test_notes_can_stand_among_the_warnings_of_an_answer(told):
    """Semicolons part those: no note begins as a sentence does, or has a semicolon of its own."""
    notes = {row["note"] for row in told().values()} - {""}
    assert notes
    for note in notes:
        first = note.split()[0]
        assert first.islower() or first.isupper(), note
        assert not set(note) & {";", ","}, note
        assert not note.endswith("."), note
