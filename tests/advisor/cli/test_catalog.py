"""`advisor catalog`: lists, shows and imports offers, tells disks and sources, as a user runs it."""

import re
from pathlib import Path

import pytest

from advisor.catalog import OfferQuery, load_catalog
from advisor.catalog.overlay import LIVE_CLOUDS, USUAL_REGIONS
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


def test_yuan_are_taken_at_a_rate_that_is_told_and_can_be_set(stderr, offers, monkeypatch):
    item = ("--cloud", "alibaba", "--instance", "ecs.gn6i-c4g1.xlarge", "--market", "on-demand")
    (first, *_) = offers(*item)
    assert "CNY at 7.07 a US dollar of 2024-10-09" in first["price"]["source"]
    (half, *_) = offers(*item, "--cny-per-usd", "14.14")
    assert half["price"]["usd_per_hour"] == pytest.approx(first["price"]["usd_per_hour"] / 2)
    assert "as told" in half["price"]["source"]
    monkeypatch.setenv("ADVISOR_CNY_PER_USD", "14.14")
    assert offers(*item)[0] == half
    monkeypatch.setenv("ADVISOR_CNY_PER_USD", "0")
    assert "ADVISOR_CNY_PER_USD" in stderr(*LIST)


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
    kept = {"name": "own_machines", "offers": {"lab": 2}, "disk_prices": {}, "left_out": 0}
    assert listed == listed | kept
    named = ("--instance", "workstation", "--cloud", "lab")
    shown("predict", "--task", "generation", "--model", "llama-3.2-3b", *named, "--disk", "local")
    shown("predict", "--task", "inference", "--model", "resnet50", *named)


def test_a_damaged_import_is_told_with_the_way_out(stderr, home, shown):
    shown(*IMPORT, OWN)
    (stored,) = home.rglob("*.import.json")
    stored.write_text(stored.read_text().replace("0.35", "0.05"))
    assert "--remove own_machines" in stderr(*LIST, "--cloud", "lab", code=1)
    for damaged in (stored.read_text(), "{"):
        stored.write_text(damaged)
        shown(*IMPORT, OWN)
        shown(*LIST, "--cloud", "lab")
    stored.write_text("{")
    shown(*IMPORT, "--remove", "own_machines")


def test_every_live_cloud_has_a_region_or_names_usual_ones():
    assert not set(LIVE_CLOUDS) - set(DEFAULT_REGION) - set(USUAL_REGIONS)


def test_a_type_of_several_clouds_is_asked_for_with_its_cloud(answer, stderr, shown, tmp_path):
    """A tracker's file makes a '1x-H100' of every provider: none of them is taken silently."""
    for cloud, usd in (("acme", "1.5"), ("zeta", "0.25")):
        file = tmp_path / f"{cloud}.csv"
        file.write_text(OWN.read_text().replace("0.35", usd).replace("lab,", f"{cloud},"))
        shown(*IMPORT, file)
    assert "server is a type of acme, zeta" in stderr(*SHOW, "server")
    question = ("predict", "--task", "inference", "--model", "resnet50", "--instance", "server")
    assert "give --cloud one of them" in stderr(*question, "--cloud", "any")
    assert answer(*question, "--cloud", "zeta")["price"]["usd_per_hour"] == 0.25


@pytest.fixture
def listed_sources(answer):
    return lambda: {row["source"]: row for row in answer("catalog", "sources")["sources"]}


@pytest.mark.slow
def test_every_price_rests_on_a_source_that_is_shown(listed_sources, monkeypatch):
    monkeypatch.setenv("ADVISOR_EUR_PER_USD", "0.9")
    catalog, query = load_catalog(), OfferQuery(cloud="any")
    counted = len(catalog.offers(query)) + len(catalog.partial_offers(query))
    for cloud in catalog.disk_clouds:
        counted += sum(map(len, catalog.disks_of(cloud)._parts_by_region.values()))
    assert sum(row["prices"] for row in listed_sources().values()) == counted


def test_notes_can_stand_among_warnings_and_what_the_user_imported_is_among_the_sources(
    listed_sources, shown
):
    before = listed_sources()
    notes = {row["note"] for row in before.values()} - {""}
    assert notes
    for note in notes:
        first = note.split()[0]
        assert first.islower() or first.isupper(), note
        assert not re.search(r"[;,]|\.$", note), note
    shown(*IMPORT, EXAMPLES / "free_services.csv")
    (own,) = [row for name, row in listed_sources().items() if name not in before][:1]
    assert own["licence"] == "the user's"
    assert own["prices"] >= 1
