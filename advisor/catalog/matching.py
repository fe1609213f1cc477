"""What is looked for, and the one predicate that says whether an offer is it."""

from __future__ import annotations

from advisor.catalog.instances import PartialType
from advisor.domain import InstanceType, Market, Offer, require_positive
from advisor.records import dataclass

# "24GiB.." means cards sold with 24 GiB. Error correction and the driver keep up to 6.9 % of them
# (A10G 22.49 of 24, T4 15 of 16, K80 11.17 of 12 GiB in nvidia-smi).
ECC_SHARE = 0.93


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferQuery:
    """A filter over offers; None or an empty tuple does not filter.

    `cloud` may be "any". `gpus` are names as clouds or data sheets write them ("A100" is every
    A100, "A100-SXM4-80GB" one of them). `accelerated` keeps types with (True) or without (False)
    a GPU or another accelerator. `max_usd_per_hour` limits the instance alone: with its disk a
    spec costs more, so the total is limited where specs are made.
    """

    cloud: str | None = None
    region: str | None = None
    market: Market | None = None
    gpus: tuple[str, ...] = ()
    min_gpu_memory_mib: float | None = None
    accelerated: bool | None = None
    max_usd_per_hour: float | None = None
    instances: tuple[str, ...] = ()

    @property
    def asks_for_facts(self) -> bool:
        """Whether anything about the instance is asked, beside its name."""
        return bool(self.gpus) or (self.accelerated, self.min_gpu_memory_mib) != (None, None)

    def __post_init__(self) -> None:
        require_positive(
            min_gpu_memory_mib=self.min_gpu_memory_mib, max_usd_per_hour=self.max_usd_per_hour
        )


def matches(offer: Offer, query: OfferQuery) -> bool:
    """Whether an offer is what the query looks for."""
    if query.region is not None and offer.region != query.region:
        return False
    if query.market is not None and offer.market is not query.market:
        return False
    if query.max_usd_per_hour is not None and offer.price.usd_per_hour > query.max_usd_per_hour:
        return False
    return matches_instance(offer.instance, query)


def matches_instance(instance: InstanceType, query: OfferQuery) -> bool:
    """The part of the predicate that needs no price."""
    if query.cloud not in (None, "any", instance.cloud):
        return False
    if query.instances and instance.name not in query.instances:
        return False
    if query.accelerated is not None and query.accelerated != is_accelerated(instance):
        return False
    if query.gpus and not any(is_gpu(instance.gpu_name, name) for name in query.gpus):
        return False
    if query.min_gpu_memory_mib is not None:
        return (instance.gpu_memory_mib or 0) >= ECC_SHARE * query.min_gpu_memory_mib
    return True


def could_match(partial: PartialType, query: OfferQuery) -> bool:
    """The same for a type that lacks facts: what is not known of it is not held against it, but
    for its memory, where a least one is asked for.
    """
    if query.cloud not in (None, "any", partial.cloud):
        return False
    if query.instances and partial.name not in query.instances:
        return False
    if query.accelerated is not None and query.accelerated != (partial.gpu_name is not None):
        return False
    if query.gpus and not any(is_gpu(partial.gpu_name, name) for name in query.gpus):
        return False
    if query.min_gpu_memory_mib is not None:
        return (partial.gpu_memory_mib or 0) >= ECC_SHARE * query.min_gpu_memory_mib
    return True


def is_accelerated(instance: InstanceType) -> bool:
    """Whether a type has a GPU, or another accelerator (which may not run PyTorch at all)."""
    return instance.gpu_count > 0 or instance.accelerator is not None


def is_gpu(gpu_name: str | None, asked: str) -> bool:
    """'A100' and 'a100-sxm4-80gb' are both 'A100-SXM4-80GB'; 'T4' is not 'T4G'."""
    if gpu_name is None:
        return False
    name, wanted = gpu_name.casefold(), asked.casefold()
    return name == wanted or name.startswith(f"{wanted}-")
