"""The disk of an answer is the cheapest order with which it still is an answer."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from advisor.catalog import resources_of
from advisor.domain import IMAGENET, DiskChoice, Stage, Task, Workload
from tests.advisor.catalog.builders import order

from .asking import CATALOG, SMALL, answered, question
from .plain_model import PlainModel, slowest

EAST = "us-east-1"
OPERATIONS = 4.6


class DiskBound(PlainModel):
    """IOPS and MiB/s bind, whichever is scarcer; the instance could do 40,000 a second."""

    def _one(self, workload, has, confidence, cache):
        rate, iops = has.disk.read_mib_per_second or 1e6, has.disk.read_iops or 1e6
        storage = min(rate * 2**20 / workload.dataset.bytes_per_sample, iops / OPERATIONS)
        rates = {Stage.STORAGE: storage, Stage.HOST: 500.0 * has.vcpus, Stage.ACCELERATOR: 4e4}
        return slowest(rates, 0.8, 1.2, confidence)


MODEL = DiskBound()


def ask(**changes):
    return answered(question(**({"batch_size": 32, "gpus": ("L4",)} | changes)), MODEL)


def grid(size):
    """gp3 orders, 500 IOPS and 25 MiB/s apart."""
    for iops, rate in itertools.product(range(3000, 80001, 500), range(125, 2001, 25)):
        if rate <= 0.25 * iops and iops <= max(3000, 500 * size):
            yield iops, rate


def lower_with(offer, iops, rate, dataset):
    disk = CATALOG.disks.attach(offer.instance, order("gp3", 158, iops=iops, mib_per_second=rate), EAST)
    workload = Workload(network="googlenet", task=Task.INFERENCE, batch_size=32, dataset=dataset)
    (prediction,) = MODEL.predict([(workload, resources_of(CATALOG, offer, disk))], confidence=0.9)
    return prediction, disk


@pytest.mark.slow
@settings(max_examples=12)
@given(st.floats(50, 9000), st.sampled_from([30_000.0, 110_000.0, 1_500_000.0]))
def test_no_order_of_a_fine_grid_is_a_cheaper_answer(target, sample_bytes):
    """Brute force over the provisioning of the chosen instance, for small and large files."""
    samples = int(131.2 * 2**30 / sample_bytes)
    dataset = replace(IMAGENET, samples=samples, bytes_per_sample=sample_bytes)
    answer = ask(target_throughput=target, dataset=dataset).chosen
    if answer is None:
        return
    offer, total = answer.spec.offer, answer.spec.total_usd_per_hour
    assert answer.prediction.lower >= target
    for iops, rate in grid(158):
        disk_usd = CATALOG.disks.price(order("gp3", 158, iops=iops, mib_per_second=rate), EAST).usd_per_hour
        if offer.price.usd_per_hour + disk_usd < total:
            assert lower_with(offer, iops, rate, dataset)[0].lower < target


@settings(max_examples=15)
@given(st.floats(20, 8000), st.floats(1, 1.2))
def test_more_throughput_is_never_cheaper(target, factor):
    """To the cent: the search ends at whole units, not somewhere near."""
    less, more = ask(target_throughput=target), ask(target_throughput=target * factor)
    if more.chosen is not None:
        assert less.chosen.spec.total_usd_per_hour <= more.chosen.spec.total_usd_per_hour + 1e-12


def test_iops_and_rate_are_bought_apart():
    """1,000/s of 110 kB in 4.6 operations at 80 %: 5,750 IOPS, and 131 MiB/s of bytes."""
    disk = ask(target_throughput=1000, disk_types=("gp3",)).chosen.spec.disk
    rate = 1250 * IMAGENET.bytes_per_sample / 2**20
    assert disk.choice.iops == 10 * -(-1250 * OPERATIONS // 10)
    assert disk.choice.mib_per_second == pytest.approx(rate, abs=1)


def test_the_order_can_be_asked_for_again():
    """`disk.order` is what to buy: it parses, and gives the same disk."""
    disk = ask(target_throughput=1000).chosen.spec.disk
    choice = CATALOG.disks.parse_choice(str(disk.choice))
    again = ask(target_throughput=1000, disk=choice).chosen.spec.disk
    assert (again.rate, again.price) == (disk.rate, disk.price)


def test_a_hard_disk_is_enough_where_nothing_faster_is_needed():
    """1.5 MB samples read in a row: sc1 and st1 compete with gp3, sized for the rate."""
    dataset = replace(IMAGENET, samples=93_000, bytes_per_sample=1_500_000.0)
    sold = {"dataset": dataset, "disk_types": CATALOG.disks.network_types}
    small = ask(target_throughput=0.3, **sold).chosen.spec.disk
    assert small.rate.type in {"sc1", "st1"}
    assert ask(target_throughput=100, **sold).chosen.spec.disk.rate.type == "gp3"


def test_no_burst_is_told_where_the_disk_has_time_to_spare():
    """A host that is slower than the disk hides what the disk lends."""
    answer = ask(target_throughput=100, gpus=("L4",), disk=DiskChoice(type="gp3", size_gib=500.0))
    storage = answer.chosen.prediction.stage_rates[Stage.STORAGE]
    shown = any("short test" in str(message) for message in answer.warnings)
    burst = answer.chosen.spec.disk.burst
    assert shown == (burst is not None and answer.chosen.prediction.median >= 0.8 * storage)


def test_gp2_alone_is_bought_beyond_the_sizes_that_are_all_as_slow():
    """Up to 33 GiB it has 100 IOPS; 100/s at 80 % in 4.6 operations take 575: 192 GiB."""
    disk = ask(target_throughput=100, disk_types=("gp2",), dataset=SMALL).chosen.spec.disk
    assert (disk.rate.type, disk.size_gib) == ("gp2", 192)
