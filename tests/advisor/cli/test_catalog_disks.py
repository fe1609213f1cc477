"""`advisor catalog disks`: rates, burst and prices, as a table or JSON."""

DISKS = ("catalog", "disks")


def test_every_type_of_every_cloud_is_listed(shown):
    out = shown(*DISKS)
    named = ("gp2", "gp3", "io1", "io2", "st1", "sc1", "pd-ssd", "cloud_efficiency")
    assert all(name in out for name in named)
    assert "unknown" in next(line for line in out.splitlines() if "cloud_ssd" in line)


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
    one = shown(*DISKS, "volume", "--cloud", "runpod")
    assert "assumed    read_mib_s 200 (120 to 480): not published" in one
    assert "estimated  $35.00 to $100.00" in one
    assert "assumed" not in shown(*DISKS, "gp3", "--cloud", "aws", "--region", "us-east-1")
    (disk,) = answer(*DISKS, "volume", "--cloud", "runpod")["disks"]
    assert disk["assumed"]["volume.read_iops"]["low"] == 2300
    (price,) = disk["prices"].values()
    assert price["low_usd_per_hour"] < price["usd_per_hour"] < price["high_usd_per_hour"]
