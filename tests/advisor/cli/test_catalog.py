"""`advisor catalog`: lists, shows and imports offers, as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from advisor.cli.main import run

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A user's data directory of the test's own."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("ADVISOR_CNY_PER_USD", raising=False)
    return tmp_path


@pytest.fixture
def ask(capsys):
    def command(*arguments):
        code = run(["catalog", *map(str, arguments)])
        out, err = capsys.readouterr()
        return code, out, err

    return command


def offers(ask, *arguments):
    code, out, err = ask("list", *arguments, "-o", "json")
    assert (code, err) == (0, "")
    return json.loads(out)["offers"]


def test_a_table_tells_how_each_price_is_known_and_show_how_often_spot_is_taken_back(ask):
    code, out, _ = ask("list", "--cloud", "aws", "--region", "us-east-1", "--gpu", "T4")
    line = next(one for one in out.splitlines() if "g4dn.xlarge" in one and "spot" in one)
    assert code == 0
    assert "observed" in line
    shown = ask("show", "g4dn.xlarge", "--market", "spot")[1]
    assert "interrupted within a month" in shown


def test_without_a_region_all_regions_of_the_clouds_are_told(ask):
    found = offers(ask, "--gpu", "L4", "--market", "on-demand")
    assert {"aws", "gcp"} <= {one["cloud"] for one in found}
    assert len({one["region"] for one in found}) > 20


def test_offers_are_told_cheapest_first_and_always_in_the_same_order(ask):
    found = offers(ask, "--cloud", "alibaba", "--gpu", "P100,T4")
    assert found == offers(ask, "--cloud", "alibaba", "--gpu", "P100,T4")
    usd = [one["price"]["usd_per_hour"] for one in found]
    assert usd == sorted(usd)
    assert min(usd) > 0


def test_types_without_facts_are_listed_and_say_what_is_missing(ask):
    found = offers(ask, "--cloud", "azure", "--gpu", "K80")
    assert found
    assert all("RAM" in one["missing"] and one["memory_mib"] is None for one in found)
    code, out, _ = ask("show", "standard_nc6_promo")
    assert code == 0
    assert "RAM" in out


def test_yuan_are_taken_at_a_rate_that_is_told_and_can_be_set(ask, monkeypatch):
    one = ("--cloud", "alibaba", "--instance", "ecs.gn6i-c4g1.xlarge")
    (first, *_) = offers(ask, *one, "--market", "on-demand")
    assert "CNY at 7.07 a US dollar of 2024-10-09" in first["price"]["source"]
    (told, *_) = offers(ask, *one, "--market", "on-demand", "--cny-per-usd", "14.14")
    assert told["price"]["usd_per_hour"] == pytest.approx(first["price"]["usd_per_hour"] / 2)
    assert "as told" in told["price"]["source"]
    monkeypatch.setenv("ADVISOR_CNY_PER_USD", "14.14")
    assert offers(ask, *one, "--market", "on-demand")[0] == told
    monkeypatch.setenv("ADVISOR_CNY_PER_USD", "0")
    code, _, err = ask("list")
    assert (code, "ADVISOR_CNY_PER_USD" in err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("list", "--region", "us-esat-1"), 2, "did you mean"),
        (("list", "--cloud", "gpc"), 2, "did you mean gcp?"),
        (("list", "--market", "sport"), 2, "did you mean spot"),
        (("list", "--gpu", "T44"), 2, "unknown GPU"),
        (("list", "--instance", "g4dn.xlrge"), 2, "did you mean g4dn.xlarge"),
        (("list", "--cny-per-usd", "0"), 2, "above 0"),
        (("show", "g4dn.xlrge"), 2, "did you mean g4dn.xlarge"),
        (("show", "g4dn.xlarge", "--region", "us-esat-1"), 2, "us-east-1"),
        (("show", "g4dn.xlarge", "--cloud", "gcp"), 2, "unknown instance type"),
        (("import",), 2, "an import takes one file"),
        (("import", "x.csv", "--list"), 2, "an import takes one file"),
        (("import", "nowhere.csv"), 2, "cannot read"),
        (("import", "--remove", "x"), 2, "nothing has been imported"),
        (("import", "x.csv", "--as-of", "yesterday"), 2, "a date like"),
    ],
)
def test_each_refusal_is_one_line_with_the_way_out(ask, arguments, code, said):
    got, out, err = ask(*arguments)
    assert (got, out, len(err.strip().splitlines())) == (code, "", 1)
    assert said in err


def test_free_services_are_imported_told_as_free_and_removed(ask):
    code, out, _ = ask("import", EXAMPLES / "free_services.csv")
    assert code == 0
    assert "colab" in out
    (found, *_) = offers(ask, "--cloud", "aistudio")
    assert (found["price"]["usd_per_hour"], found["price"]["kind"]) == (0, "free")
    assert "12 GPU hours a day" in found["price"]["terms"]
    assert "RAM" in found["missing"]
    assert "free" in ask("list", "--cloud", "colab")[1]
    assert ask("import", "--remove", "free_services")[0] == 0
    assert ask("list", "--cloud", "colab")[0] == 2


def test_own_machines_have_facts_and_can_be_ranked(ask):
    ask("import", EXAMPLES / "own_machines.csv")
    shown = json.loads(ask("show", "workstation", "-o", "json")[1])
    assert shown["ranked"]
    assert shown["gpu"] == {"name": "RTX 3090", "count": 1, "memory_mib": 24576}
    listing = json.loads(ask("import", "--list", "-o", "json")[1])
    (listed,) = listing["imports"]
    assert (listed["name"], listed["offers"]) == ("own_machines", {"lab": 2})
    assert (listed["disk_prices"], listed["left_out"]) == ({}, 0)


def test_a_bad_file_leaves_the_import_before_it_whole(ask, tmp_path):
    good = (EXAMPLES / "own_machines.csv").read_text()
    file = tmp_path / "mine.csv"
    file.write_text(good)
    ask("import", file)
    before = offers(ask, "--cloud", "lab")
    file.write_text(good.replace("0.35,USD", "-0.35,USD"))
    code, _, err = ask("import", file)
    assert code == 2
    assert "line 3" in err
    assert "nothing was imported" in err
    assert offers(ask, "--cloud", "lab") == before


@pytest.mark.parametrize("cloud", ["aws", "any", "gcp"])
def test_an_import_never_takes_a_clouds_name(ask, tmp_path, cloud):
    text = (EXAMPLES / "own_machines.csv").read_text().replace("lab,", f"{cloud},")
    (tmp_path / "mine.csv").write_text(text)
    code, _, err = ask("import", tmp_path / "mine.csv")
    assert (code, "--name" in err) == (2, True)


def test_a_damaged_import_is_told_with_the_way_out(ask, home):
    ask("import", EXAMPLES / "own_machines.csv")
    (stored,) = home.rglob("*.import.json")
    stored.write_text(stored.read_text().replace("0.35", "0.05"))
    code, _, err = ask("list", "--cloud", "lab")
    assert code == 1
    assert "--remove own_machines" in err
    assert ask("import", "--remove", "own_machines")[0] == 0


def test_the_table_of_a_type_has_its_prices_side_by_side(ask):
    code, out, _ = ask("show", "g4dn.xlarge")
    lines = out.splitlines()
    assert code == 0
    assert any(line.split()[:4] == ["us-east-1", "$0.526", "list", "2026-07-20"] for line in lines)
    assert max(map(len, lines)) <= 100


def test_a_type_marks_what_is_assumed_of_it_and_says_why(ask):
    """Only what it rests on, of a disk of its size; cores by the name of its series."""
    name = "Standard_NC24ads_A100_v4"
    facts = json.loads(ask("show", name, "-o", "json")[1])["assumed"]
    assert set(facts) == {"local_disk_read_iops", "series_cores"}
    fact = facts["local_disk_read_iops"]
    assert fact["low"] < fact["value"] < fact["high"]
    lines = ask("show", name)[1].splitlines()
    assert any(line.split() == ["local_disk", "read_iops", "139200", "(assumed)"] for line in lines)
    assert any(line.split()[::2] == ["physical_cores", "(assumed)"] for line in lines)
    assert any("139,200 (66,240 to 266,880): 145 IOPS a GB" in line for line in lines)


def test_what_nobody_measured_of_a_processor_is_not_zero(ask):
    """Second threads of a cloud that names no processor; a core of Graviton has none."""
    cpu = json.loads(ask("show", "1x-l4.secure", "-o", "json")[1])["cpu"]
    assert cpu["second_thread_yield"] is None
    graviton = json.loads(ask("show", "c7g.large", "-o", "json")[1])["cpu"]
    assert graviton["second_thread_yield"] == 0


def test_a_list_without_offers_says_so(ask):
    code, out, _ = ask("list", "--cloud", "runpod", "--market", "spot")
    assert (code, out) == (0, "No offer in the catalogue is like this.\n")


def test_a_list_marks_cores_that_are_assumed(ask):
    """RunPod tells vCPUs alone; AWS tells its cores."""
    _, out, _ = ask("list", "--cloud", "runpod", "--instance", "1x-l4.secure")
    assert " 6*  " in out
    assert "* assumed: `advisor catalog show TYPE`" in out
    assert "*" not in ask("list", "--cloud", "aws", "--instance", "g4dn.xlarge")[1]


@pytest.mark.parametrize(
    "of", [("--gpu", "A10", "--cloud", "azure"), ("--cloud", "runpod"), ("--cloud", "any", "--gpu", "H100")]
)
def test_a_list_fits_a_terminal(ask, of):
    """Columns without room are left out, those that name an offer and its price never."""
    heading, *lines = ask("list", *of)[1].splitlines()
    assert max(map(len, [heading, *lines])) <= 100
    assert {"instance", "region", "hour", "market", "price"} <= set(heading.split())


def test_prices_of_a_currency_without_a_rate_are_listed_in_it(ask):
    """Never as dollars: 1.609 euros are no $1.609."""
    prices = [offer["price"] for offer in offers(ask, "--cloud", "leafcloud")]
    assert {price["currency"] for price in prices} == {"EUR"}
    assert all(price["usd_per_hour"] is None and price["per_hour"] > 0 for price in prices)
    _, text, _ = ask("list", "--cloud", "ovh")
    assert "EUR 0.800" in text
    assert text.index("$12.28") < text.index("EUR 0.800"), "behind all that has a price in dollars"
    _, shown, _ = ask("show", "t2-le-45", "--cloud", "ovh", "-o", "json")
    assert json.loads(shown)["prices"]["global"]["per_hour"] == 0.8


def test_a_type_of_several_clouds_is_asked_for_with_its_cloud(ask, tmp_path, capsys):
    """A tracker's file makes a '1x-H100' of every provider: none of them is taken silently."""
    text = (EXAMPLES / "own_machines.csv").read_text()
    for cloud in ("acme", "zeta"):
        file = tmp_path / f"{cloud}.csv"
        prices = text.replace("0.35", {"acme": "1.5", "zeta": "0.25"}[cloud])
        file.write_text(prices.replace("lab,", f"{cloud},"))
        assert ask("import", file)[0] == 0
    name = "server"
    code, _, err = ask("show", name)
    assert code == 2
    assert f"{name} is a type of acme, zeta" in err
    asked = ("predict", "--task", "inference", "--model", "resnet50", "--instance", name)
    assert run([*asked, "--cloud", "any"]) == 2
    assert "give --cloud one of them" in capsys.readouterr().err
    assert run([*asked, "--cloud", "zeta", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["price"]["usd_per_hour"] == 0.25


@pytest.mark.parametrize(
    ("name", "accelerator"),
    [
        ("inf2.xlarge", "AWS Inferentia2"),
        ("trn1.2xlarge", "AWS Trainium"),
        ("vt1.3xlarge", ""),
        ("f2.6xlarge", ""),
    ],
)
def test_a_type_with_another_accelerator_shows_it_and_what_it_is_ranked_for(ask, name, accelerator):
    """Its CPU prepares data; what computes there is no GPU of ours."""
    code, out, _ = ask("show", name, "-o", "json")
    document = json.loads(out)
    assert (code, document["ranked"], document["gpu"]) == (0, True, None)
    assert accelerator in document["accelerator"]
    assert document["remark"].startswith(
        f"ranked without its accelerator ({document['accelerator']}), which does not run CUDA: "
        "for preprocessing"
    )


def test_cards_of_others_are_refused_for_the_reason_that_is_true(ask):
    """ROCm builds of PyTorch exist; rates of them do not."""
    _, out, _ = ask("show", "g4ad.xlarge", "-o", "json")
    assert "all rates are of PyTorch on CUDA" in json.loads(out)["remark"]
