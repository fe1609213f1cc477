"""`advisor catalog`: lists, shows and imports offers, tells disks and sources, as a user runs it."""

from pathlib import Path

import pytest

from advisor.catalog import OfferQuery, load_catalog
from advisor.catalog.live import LIVE_CLOUDS, USUAL_REGIONS
from advisor.questions.settled import DEFAULT_REGION

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
OWN = EXAMPLES / "own_machines.csv"
SHOW, LIST, IMPORT = ("catalog", "show"), ("catalog", "list"), ("catalog", "import")


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A user's data directory of the test's own."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("ADVISOR_CNY_PER_USD", raising=False)
    return tmp_path


@pytest.fixture
def offers(answer):
    return lambda *words: answer(*LIST, *words, quiet=True)["offers"]


def test_yuan_are_taken_at_a_rate_that_is_told_and_can_be_set(ask, offers, monkeypatch):
    item = ("--cloud", "alibaba", "--instance", "ecs.gn6i-c4g1.xlarge", "--market", "on-demand")
    (first, *_) = offers(*item)
    assert "CNY at 7.07 a US dollar of 2024-10-09" in first["price"]["source"]
    (listed_sources, *_) = offers(*item, "--cny-per-usd", "14.14")
    assert listed_sources["price"]["usd_per_hour"] == pytest.approx(first["price"]["usd_per_hour"] / 2)
    assert "as told" in listed_sources["price"]["source"]
    monkeypatch.setenv("ADVISOR_CNY_PER_USD", "14.14")
    assert offers(*item)[0] == listed_sources
    monkeypatch.setenv("ADVISOR_CNY_PER_USD", "0")
    code, _, err = ask(*LIST)
    assert (code, "ADVISOR_CNY_PER_USD" in err) == (2, True)


def test_free_services_are_imported_told_as_free_and_removed(offers, shown):
    assert "colab" in shown(*IMPORT, EXAMPLES / "free_services.csv")
    (result, *_) = offers("--cloud", "aistudio")
    assert (result["price"]["usd_per_hour"], result["price"]["kind"]) == (0, "free")
    assert "12 GPU hours a day" in result["price"]["terms"]
    assert "RAM" in result["missing"]
    assert "free" in shown(*LIST, "--cloud", "colab")
    shown(*IMPORT, "--remove", "free_services")
    shown(*LIST, "--cloud", "colab", code=2)


def test_own_machines_have_facts_and_can_be_ranked(answer, shown):
    shown(*IMPORT, OWN)
    machine = answer(*SHOW, "workstation")
    assert machine["ranked"]
    assert machine["gpu"] == {"name": "RTX 3090", "count": 1, "memory_mib": 24576}
    (listed,) = answer(*IMPORT, "--list")["imports"]
    assert (listed["name"], listed["offers"]) == ("own_machines", {"lab": 2})
    assert (listed["disk_prices"], listed["left_out"]) == ({}, 0)
    named = ("--instance", "workstation", "--cloud", "lab")
    shown("predict", "--task", "generation", "--model", "llama-3.2-3b", *named, "--disk", "local")
    shown("predict", "--task", "inference", "--model", "resnet50", *named)


def test_a_bad_file_leaves_the_import_before_it_whole(ask, offers, tmp_path):
    file = tmp_path / "mine.csv"
    file.write_text(OWN.read_text())
    ask(*IMPORT, file)
    before = offers("--cloud", "lab")
    file.write_text(OWN.read_text().replace("0.35,USD", "-0.35,USD"))
    code, _, err = ask(*IMPORT, file)
    assert code == 2
    assert "line 3" in err
    assert "nothing was imported" in err
    assert offers("--cloud", "lab") == before


def test_a_damaged_import_is_told_with_the_way_out(ask, home, shown):
    shown(*IMPORT, OWN)
    (stored,) = home.rglob("*.import.json")
    stored.write_text(stored.read_text().replace("0.35", "0.05"))
    code, _, err = ask(*LIST, "--cloud", "lab")
    assert (code, "--remove own_machines" in err) == (1, True)
    for damaged in (stored.read_text(), "{"):
        stored.write_text(damaged)
        shown(*IMPORT, OWN)
        shown(*LIST, "--cloud", "lab")
    stored.write_text("{")
    shown(*IMPORT, "--remove", "own_machines")


def test_every_live_cloud_has_a_region_or_names_usual_ones():
    assert not set(LIVE_CLOUDS) - set(DEFAULT_REGION) - set(USUAL_REGIONS)


def test_a_type_of_several_clouds_is_asked_for_with_its_cloud(answer, ask, shown, tmp_path):
    """A tracker's file makes a '1x-H100' of every provider: none of them is taken silently."""
    for cloud, usd in (("acme", "1.5"), ("zeta", "0.25")):
        file = tmp_path / f"{cloud}.csv"
        file.write_text(OWN.read_text().replace("0.35", usd).replace("lab,", f"{cloud},"))
        shown(*IMPORT, file)
    code, _, err = ask(*SHOW, "server")
    assert (code, "server is a type of acme, zeta" in err) == (2, True)
    question = ("predict", "--task", "inference", "--model", "resnet50", "--instance", "server")
    code, _, err = ask(*question, "--cloud", "any")
    assert (code, "give --cloud one of them" in err) == (2, True)
    assert answer(*question, "--cloud", "zeta")["price"]["usd_per_hour"] == 0.25


@pytest.fixture
def listed_sources(answer):
    return lambda: {row["source"]: row for row in answer("catalog", "sources")["sources"]}


@pytest.mark.slow
def test_every_price_rests_on_a_source_that_is_shown(listed_sources, monkeypatch):
    monkeypatch.setenv("ADVISOR_EUR_PER_USD", "0.9")
    catalog = load_catalog()
    offers, query = catalog.offers(OfferQuery(cloud="any")), OfferQuery(cloud="any")
    counted = len(offers) + len(catalog.partial_offers(query))
    for cloud in catalog.disk_clouds:
        disks = catalog.disks_of(cloud)
        counted += sum(len(disks._parts_by_region[region]) for region in disks._parts_by_region)
    assert sum(row["prices"] for row in listed_sources().values()) == counted


def test_notes_can_stand_among_warnings_and_what_the_user_imported_is_among_the_sources(listed_sources, ask):
    notes = {row["note"] for row in listed_sources().values()} - {""}
    assert notes
    for note in notes:
        first = note.split()[0]
        assert first.islower() or first.isupper(), note
        assert not set(note) & {";", ","}, note
        assert not note.endswith("."), note
    before = listed_sources()
    assert ask(*IMPORT, EXAMPLES / "free_services.csv")[0] == 0
    (own,) = [row for name, row in listed_sources().items() if name not in before][:1]
    assert own["licence"] == "the user's"
    assert own["prices"] >= 1
