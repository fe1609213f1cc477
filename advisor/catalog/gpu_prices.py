"""What an hour of each GPU costs at least, host included, and what GPUs are sorted by."""

from __future__ import annotations

from collections.abc import Iterable

from advisor.domain import Offer

# Data sheet facts by which the table is sorted: JSON name -> whether more is better.
SORT_KEYS = {
    "usd_per_gpu_hour": False,
    "usd_per_fp32_tflop_hour": False,
    "memory_mib": True,
    "memory_gb_per_second": True,
    "fp32_tflops": True,
    "fp16_tflops": True,
    "name": False,
}


def usd_per_gpu_hour(offer: Offer) -> float:
    """The instance's price over its GPUs; its vCPUs, RAM and disks are part of it."""
    return offer.price.usd_per_hour / offer.instance.gpu_count


def cheapest_by_gpu(offers: Iterable[Offer]) -> dict[str, Offer]:
    """GPU name -> the offer with the lowest price a GPU; the smaller instance where two tie.

    Shares of a GPU and types that nobody can order are no price of a GPU.
    """
    cheapest: dict[str, Offer] = {}
    for offer in offers:
        instance = offer.instance
        if instance.gpu_name is None or instance.gpu_fraction < 1 or offer.closed:
            continue
        best = cheapest.get(instance.gpu_name)
        if best is None or _key(offer) < _key(best):
            cheapest[instance.gpu_name] = offer
    return cheapest


def _key(offer: Offer) -> tuple[float, float, str, str]:
    return usd_per_gpu_hour(offer), offer.price.usd_per_hour, offer.instance.name, offer.region
