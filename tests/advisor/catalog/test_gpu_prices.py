"""The least price of a GPU hour."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from advisor.catalog.gpus import cheapest_by_gpu, usd_per_gpu_hour
from advisor.domain.orderable import NotOrderable
from tests.advisor.catalog.builders import make_cpu_instance, make_instance, make_offer

RETIRED = NotOrderable(cloud="aws", status="retired")


def test_an_instance_of_many_gpus_is_divided_by_them() -> None:
    """Eight cheap ones together are dearer than one, and each costs less."""
    one = make_offer(make_instance(name="g9.one"), 1.0)
    eight = make_offer(make_instance(name="g9.eight", gpu_count=8), 6.4)
    assert cheapest_by_gpu([one, eight])["T4"] is eight


def test_shares_retired_types_and_cpus_are_no_price_of_a_gpu() -> None:
    """An eighth of a GPU would look eight times too cheap."""
    offers = [
        make_offer(make_instance(gpu_fraction=0.125), 0.1),
        replace(make_offer(make_instance(), 0.2), closed=RETIRED),
        make_offer(make_cpu_instance(), 0.01),
    ]
    assert cheapest_by_gpu(offers) == {}


@given(st.permutations(range(5)), st.lists(st.floats(0.01, 99), min_size=5, max_size=5))
def test_the_order_of_offers_does_not_matter(order: list[int], prices: list[float]) -> None:
    """The cheapest is the cheapest; names break ties."""
    offers = [make_offer(make_instance(name=f"g{i}.x"), usd) for i, usd in enumerate(prices)]
    best = cheapest_by_gpu([offers[i] for i in order])["T4"]
    assert usd_per_gpu_hour(best) == min(map(usd_per_gpu_hour, offers))
    assert best == cheapest_by_gpu(offers)["T4"]
