import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.domain import DiskRate
from advisor.errors import UsageError
from advisor.sweeps.planning.disks import UNLIMITED, parse_named_rate, split_disks

FAR = DiskRate(type="far", read_mib_per_second=9.0, read_latency_seconds=0.002)


@pytest.mark.parametrize(
    ("text", "disk"),
    [
        ("slow=50MiB/s", DiskRate(type="slow", read_mib_per_second=50.0)),
        ("s=1GiB/s,500iops", DiskRate(type="s", read_mib_per_second=1024.0, read_iops=500.0)),
        ("few=200 IOPS", DiskRate(type="few", read_iops=200.0)),
        ("far=9MiB/s, 2 ms", FAR),
        ("unlimited", UNLIMITED),
        ("host", UNLIMITED),
        ("gp3", None),
        ("st1:500GiB", None),
    ],
)
def test_a_disk_is_a_rate_or_a_type(text, disk):
    assert parse_named_rate(text) == disk


@pytest.mark.parametrize("text", ["slow=", "slow=fast", "=5MiB/s", "slow=0MiB/s", "slow=5MiB"])
def test_a_rate_that_is_none_is_refused(text):
    with pytest.raises(UsageError):
        parse_named_rate(text)


@given(st.lists(st.sampled_from(["gp3", "a=5MiB/s", "a=5MiB/s,10iops", "st1:1TiB"]), min_size=1))
def test_a_comma_before_iops_does_not_split(disks):
    assert split_disks(",".join(disks)) == disks
