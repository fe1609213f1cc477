"""Disks beyond AWS: limits of the instance by disk type, sizes that buy rate, unknown prices."""

import pytest

from advisor.catalog import load_catalog
from advisor.errors import NoOfferError, UsageError
from tests.advisor.catalog.builders import make_instance, order
from tests.rows import assert_each, table

CATALOG = load_catalog()
GCP, ALIBABA = CATALOG.disks_of("gcp"), CATALOG.disks_of("alibaba")
IOWA = "us-central1"


def on_gcp(name, **changes):
    unlimited = {"ebs_baseline_mib_per_second": None, "ebs_baseline_iops": None}
    return make_instance(cloud="gcp", name=name, **(unlimited | changes))


def test_machine_types_pass_on_what_is_documented():
    """A volume that is large enough for anything is held to the machine type's own limit."""

    def check(name, disk_type, rate, iops):
        disk = GCP.attach(on_gcp(name), order(disk_type, 65536), IOWA)
        assert (disk.rate.read_mib_per_second, disk.rate.read_iops) == (rate, iops)

    assert_each(check, table("disks")["machine_types"])


def test_a_machine_type_refuses_disks_it_does_not_take():
    with pytest.raises(UsageError, match=r"g2-standard-4 takes no pd-standard disk; it takes"):
        GCP.attach(on_gcp("g2-standard-4"), order("pd-standard", 100), IOWA)
    result = GCP.candidate_disks(on_gcp("g2-standard-4"), 131, IOWA)
    assert {disk.rate.type for disk in result} == {"pd-balanced", "pd-ssd"}


def test_the_volume_alone_counts_where_no_limit_is_known():
    disk = GCP.attach(on_gcp("n9-standard-4"), order("pd-ssd", 100), IOWA)
    assert (disk.rate.read_mib_per_second, disk.rate.read_iops) == (288, 9000)
    assert disk.binding_limit == "volume"


def test_persistent_disks_cost_their_size():
    price = GCP.price(order("pd-balanced", 1000), IOWA)
    assert price.usd_per_hour == pytest.approx(100 / 730)
    assert price.as_of.isoformat() == "2026-07-30"


def test_larger_disks_are_candidates_where_size_buys_rate():
    """Up to the size with which the machine type binds, cheapest first, none equalled by less."""
    result = GCP.candidate_disks(on_gcp("g2-standard-8"), 131, IOWA)
    prices = [disk.usd_per_hour for disk in result]
    assert prices == sorted(prices)
    assert result[-1].rate.read_iops == 15000
    assert result[0].size_gib == 158


def test_disks_without_a_known_price_are_never_candidates():
    """Rates of Alibaba's older disks are documented and no price is at hand: never guessed."""
    result = ALIBABA.candidate_disks(on_gcp("ecs.gn6i"), 131, "cn-beijing")
    assert {disk.rate.type for disk in result} == {f"cloud_essd_pl{level}" for level in (0, 1, 2)}
    assert {disk.price.kind for disk in result} == {"estimated"}
    with pytest.raises(NoOfferError, match=r"no price of cloud_ssd in cn-beijing is known"):
        ALIBABA.price(order("cloud_ssd", 500), "cn-beijing")
    assert ALIBABA.rate(order("cloud_ssd", 500)).read_iops == 16800


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gp3:1.5GiB", "whole GiB: 1 or 2"),
        ("gp3:500GiB:6000.5iops", "whole IOPS: 6000 or 6001"),
        ("gp3:500GiB:250.5MiB/s", "whole MiB/s: 250 or 251"),
        ("gp3:500GiB:6000iops:7000iops", "is no disk"),
        ("gp3:90000iops", "3000 to 80000 IOPS"),
        ("instance_store:100GiB:9000iops", "nothing of it can be provisioned"),
        ("gp2:1000iops", "cannot be provisioned"),
    ],
)
def test_orders_that_nobody_sells_are_refused(text, words):
    """With and without a size, each names its limit."""
    with pytest.raises(UsageError, match=words):
        CATALOG.disks.parse_choice(text)


def test_a_small_data_set_gets_the_size_that_its_iops_need():
    """500 IOPS a GiB: 8,000 need 16 GiB, however little is stored."""
    assert CATALOG.disks.fitting_size("gp3", 0.2, 8000) == 16
    assert CATALOG.disks.fitting_size("gp3", 0.2, 3000) == 1
