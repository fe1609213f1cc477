"""`advisor catalog disks`: rates, burst and prices, as a table or JSON."""

import json

import pytest

from advisor.cli.main import run


def say(capsys, *arguments):
    code = run(["catalog", "disks", *arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_every_type_of_every_cloud_is_listed(capsys):
    code, out, _ = say(capsys)
    assert code == 0
    named = ("gp2", "gp3", "io1", "io2", "st1", "sc1", "pd-ssd", "cloud_efficiency")
    assert all(name in out for name in named)
    assert "unknown" in next(line for line in out.splitlines() if "cloud_ssd" in line)


def test_one_disk_shows_what_lasts_what_does_not_and_what_it_costs(capsys):
    code, out, _ = say(capsys, "gp2:100GiB", "--region", "us-east-1")
    assert code == 0
    assert "75 MiB/s, 300 IOPS" in out
    assert "128 MiB/s, 3,000 IOPS for 0.6 h" in out
    assert "us-east-1   $10.00" in out
    assert "2024-07-18" in out


def test_json_has_every_region(capsys):
    _, out, _ = say(capsys, "gp3:500GiB:6000iops:250MiB/s", "-o", "json")
    document = json.loads(out)
    (disk,) = document["disks"]
    assert document["schema"] == "advisor.disks/1"
    assert disk["prices"]["us-east-1"]["usd_per_month"] == pytest.approx(40 + 15 + 125 * 0.04)
    assert (disk["read_mib_per_second"], disk["read_iops"], disk["burst"]) == (250, 6000, None)
    assert len(disk["prices"]) > 20


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["gp3:10GiB:9000iops"], "3000 to 5000 IOPS"),
        (["pd-ssd:5GiB"], "10GiB to 65536GiB"),
        (["gp33"], "did you mean gp3"),
        (["gp3", "--cloud", "gcp"], "unknown disk type"),
        (["gp3", "--region", "mars"], "no disk price in region 'mars'"),
        (["instance_store"], "local disks differ by instance"),
        (["local", "--cloud", "aws"], "local disks differ by instance"),
    ],
)
def test_what_is_not_sold_is_bad_input(capsys, arguments, words):
    code, out, err = say(capsys, *arguments)
    assert (code, out) == (2, "")
    assert words in err


def test_what_is_assumed_or_estimated_of_a_disk_is_marked(capsys):
    """In the table by signs, for one disk with range and reason, in JSON as fields."""
    _, out, _ = say(capsys, "--cloud", "any")
    line = next(line for line in out.splitlines() if line.startswith("runpod"))
    assert line.split()[2:4] == ["200*", "7,000*"]
    assert line.endswith("~$50.00")
    assert max(map(len, out.splitlines())) <= 100
    _, one, _ = say(capsys, "volume", "--cloud", "runpod")
    assert "assumed    read_mib_s 200 (120 to 480): not published" in one
    assert "estimated  $35.00 to $100.00" in one
    _, listed, _ = say(capsys, "gp3", "--cloud", "aws", "--region", "us-east-1")
    assert "assumed" not in listed
    (disk,) = json.loads(say(capsys, "volume", "--cloud", "runpod", "-o", "json")[1])["disks"]
    assert disk["assumed"]["volume.read_iops"]["low"] == 2300
    (price,) = disk["prices"].values()
    assert price["low_usd_per_hour"] < price["usd_per_hour"] < price["high_usd_per_hour"]
