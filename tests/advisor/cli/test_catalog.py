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


def test_a_table_tells_how_each_price_is_known_and_show_how_often_spot_is_taken_back(shown):
    lines = shown(*LIST, "--cloud", "aws", "--region", "us-east-1", "--gpu", "T4").splitlines()
    assert "observed" in next(line for line in lines if "g4dn.xlarge" in line and "spot" in line)
    assert "interrupted within a month" in shown(*SHOW, "g4dn.xlarge", "--market", "spot")


def test_types_without_facts_are_listed_and_say_what_is_missing(offers, shown):
    result = offers("--cloud", "azure", "--gpu", "K80")
    assert result
    assert all("RAM" in item["missing"] and item["memory_mib"] is None for item in result)
    assert "RAM" in shown(*SHOW, "standard_nc6_promo")


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


def test_the_table_of_a_type_has_its_prices_side_by_side(shown):
    lines = shown(*SHOW, "g4dn.xlarge").splitlines()
    assert any(line.split()[:4] == ["us-east-1", "$0.526", "list", "2026-07-20"] for line in lines)
    assert max(map(len, lines)) <= 100


def test_a_type_marks_what_is_assumed_of_it_and_says_why(answer, shown):
    """Only what it rests on, of a disk of its size; cores by the name of its series."""
    name = "Standard_NC24ads_A100_v4"
    facts = answer(*SHOW, name)["assumed"]
    assert set(facts) == {"local_disk_read_iops", "series_cores"}
    fact = facts["local_disk_read_iops"]
    assert fact["low"] < fact["value"] < fact["high"]
    lines = shown(*SHOW, name).splitlines()
    assert any(line.split() == ["local_disk", "read_iops", "139200", "(assumed)"] for line in lines)
    assert any(line.split()[::2] == ["physical_cores", "(assumed)"] for line in lines)
    assert any("139,200 (66,240 to 266,880): 145 IOPS a GB" in line for line in lines)


def test_a_list_without_offers_says_so(shown):
    out = shown(*LIST, "--cloud", "runpod", "--market", "spot")
    assert out == "No offer in the catalogue is like this.\n"


def test_a_list_marks_cores_that_are_assumed(shown):
    """RunPod tells vCPUs alone; AWS tells its cores."""
    out = shown(*LIST, "--cloud", "runpod", "--instance", "1x-l4.secure")
    assert " 6*  " in out
    assert "* assumed: `advisor catalog show TYPE`" in out
    assert "*" not in shown(*LIST, "--cloud", "aws", "--instance", "g4dn.xlarge")


@pytest.mark.parametrize(
    "of", [("--gpu", "A10", "--cloud", "azure"), ("--cloud", "runpod"), ("--cloud", "any", "--gpu", "H100")]
)
def test_a_list_fits_a_terminal(shown, of):
    """Columns without room are left out, those that name an offer and its price never."""
    heading, *lines = shown(*LIST, *of).splitlines()
    assert max(map(len, [heading, *lines])) <= 100
    assert {"instance", "region", "hour", "market", "price"} <= set(heading.split())


def test_prices_of_a_currency_without_a_rate_are_listed_in_it(answer, offers, shown):
    """Never as dollars: 1.609 euros are no $1.609."""
    prices = [offer["price"] for offer in offers("--cloud", "leafcloud")]
    assert {price["currency"] for price in prices} == {"EUR"}
    assert all(price["usd_per_hour"] is None and price["per_hour"] > 0 for price in prices)
    text = shown(*LIST, "--cloud", "ovh")
    assert "EUR 0.800" in text
    assert text.index("$12.28") < text.index("EUR 0.800"), "behind all that has a price in dollars"
    assert answer(*SHOW, "t2-le-45", "--cloud", "ovh")["prices"]["global"]["per_hour"] == 0.8


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


@pytest.mark.parametrize(
    ("name", "accelerator"),
    [
        ("inf2.xlarge", "AWS Inferentia2"),
        ("trn1.2xlarge", "AWS Trainium"),
        ("vt1.3xlarge", ""),
        ("f2.6xlarge", ""),
    ],
)
def test_a_type_with_another_accelerator_shows_it_and_what_it_is_ranked_for(answer, name, accelerator):
    """Its CPU prepares data; what computes there is no GPU of ours."""
    document = answer(*SHOW, name)
    assert (document["ranked"], document["gpu"]) == (True, None)
    assert accelerator in document["accelerator"]
    assert document["remark"].startswith(
        f"ranked without its accelerator ({document['accelerator']}), which does not run CUDA: "
        "for preprocessing"
    )


DISKS = ("catalog", "disks")


def test_every_type_of_every_cloud_is_listed(shown):
    out = shown(*DISKS)
    named = ("gp2", "gp3", "io1", "io2", "st1", "sc1", "pd-ssd", "cloud_efficiency")
    assert all(name in out for name in named)
    assert "~$" in next(line for line in out.splitlines() if "cloud_ssd" in line)


def test_one_disk_shows_what_lasts_what_does_not_and_what_it_costs(shown):
    out = shown(*DISKS, "gp2:100GiB", "--region", "us-east-1")
    assert "75 MiB/s, 300 IOPS" in out
    assert "128 MiB/s, 3,000 IOPS for 0.6 h" in out
    assert "us-east-1   $10.00" in out
    assert "2024-07-18" in out


def test_what_is_assumed_or_estimated_of_a_disk_is_marked(answer, shown):
    """In the table by signs, for one disk with range and reason, in JSON as fields."""
    lines = shown(*DISKS, "--cloud", "any").splitlines()
    line = next(line for line in lines if line.startswith("runpod"))
    assert line.split()[2:4] == ["200*", "7,000*"]
    assert line.endswith("~$50.00")
    assert max(map(len, lines)) <= 100
    item = shown(*DISKS, "volume", "--cloud", "runpod")
    assert "assumed    read_mib_s 200 (120 to 480): not published" in item
    assert "estimated  $35.00 to $100.00" in item
    assert "assumed" not in shown(*DISKS, "gp3", "--cloud", "aws", "--region", "us-east-1")
    (disk,) = answer(*DISKS, "volume", "--cloud", "runpod")["disks"]
    assert disk["assumed"]["volume.read_iops"]["low"] == 2300
    (price,) = disk["prices"].values()
    assert price["low_usd_per_hour"] < price["usd_per_hour"] < price["high_usd_per_hour"]


EXAMPLE = Path(__file__).parents[3] / "docs/examples/free_services.csv"


@pytest.fixture
def listed_sources(answer):
    return lambda: {row["source"]: row for row in answer("catalog", "sources")["sources"]}


@pytest.mark.slow
def test_every_price_rests_on_a_source_that_is_shown(listed_sources, monkeypatch):
    """Prices of instances and of disks, in euros too, counted one by one."""
    monkeypatch.setenv("ADVISOR_EUR_PER_USD", "0.9")
    catalog = load_catalog()
    offers, query = catalog.offers(OfferQuery(cloud="any")), OfferQuery(cloud="any")
    counted = len(offers) + len(catalog.partial_offers(query))
    for cloud in catalog.disk_clouds:
        disks = catalog.disks_of(cloud)
        counted += sum(len(disks._by_region[region]) for region in disks._by_region)
    assert sum(row["prices"] for row in listed_sources().values()) == counted


def test_age_counts_against_the_limit_of_prices_and_facts_have_none(listed_sources, monkeypatch):
    """The same source is fresh on one day and too old a year later."""
    monkeypatch.setenv("ADVISOR_TODAY", "2026-08-10")
    now = listed_sources()["gcp-fd66b26f"]
    assert (now["age_days"], now["too_old"], now["licence"]) == (11, False, "Apache-2.0")
    monkeypatch.setenv("ADVISOR_TODAY", "2027-09-01")
    later = listed_sources()
    assert later["gcp-fd66b26f"]["too_old"] is True
    assert (later["gpu-sheets"]["max_age_days"], later["gpu-sheets"]["too_old"]) == (None, False)


def test_what_the_user_imported_is_among_them(listed_sources, ask):
    """With the count of its own prices."""
    before = listed_sources()
    assert ask("catalog", "import", str(EXAMPLE))[0] == 0
    (own,) = [row for name, row in listed_sources().items() if name not in before][:1]
    assert own["licence"] == "the user's"
    assert own["prices"] >= 1


def test_the_table_has_a_line_for_each_name_and_fits_a_terminal(shown, listed_sources):
    """Of sources with one name the oldest counts; the licence stands beside what rests on it."""
    out = shown("catalog", "sources")
    lines = out.splitlines()
    assert max(map(len, lines)) <= 100
    names = [line.partition("  ")[0] for line in lines[1 : lines.index("")]]
    assert len(set(names)) == len(names)
    retired = [row for row in listed_sources().values() if row["part"] == "AWS retired types"]
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


def test_notes_can_stand_among_the_warnings_of_an_answer(listed_sources):
    """Semicolons part those: no note begins as a sentence does, or has a semicolon of its own."""
    notes = {row["note"] for row in listed_sources().values()} - {""}
    assert notes
    for note in notes:
        first = note.split()[0]
        assert first.islower() or first.isupper(), note
        assert not set(note) & {";", ","}, note
        assert not note.endswith("."), note
