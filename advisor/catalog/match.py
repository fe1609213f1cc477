"""The query for offers, and the predicate that says whether an offer matches it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from functools import lru_cache

from msgspec import Struct

from advisor.catalog.instances import PartialType
from advisor.domain import ANY, InstanceType, Market, Price, Range
from advisor.domain.money import PriceSpread, is_old, is_wanted

# "24GiB.." means cards sold with 24 GiB. Error correction and the driver keep up to 6.9 % of them (A10G 22.49
# of 24, T4 15 of 16, K80 11.17 of 12 GiB in nvidia-smi).
ECC_SHARE = 0.93

# Stands for every cloud; no cloud has this name.
ANY_CLOUD = "any"


class OfferQuery(Struct, frozen=True, kw_only=True):
    """A filter over offers; None or an empty tuple does not filter.

    `cloud` may be "any". `gpus` are names as clouds or data sheets write them ("A100" is every A100,
    "A100-SXM4-80GB" one of them). `accelerated` keeps types with (True) or without (False) a GPU or another
    accelerator. `max_usd_per_hour` limits the instance alone: with its disk a spec costs more, so the total
    is limited where specs are made. GPU memory is that of one GPU, or of the share of one that a type has; a
    K80 card counts as two GPUs. `listed_on` keeps prices that are listed and not old on that day, `fresh_on`
    prices that are not old then, `price_spread` prices that are sure enough."""

    cloud: str | None = None
    region: str | None = None
    market: Market | None = None
    price_kinds: tuple[str, ...] = ()
    listed_on: date | None = None
    fresh_on: date | None = None
    price_spread: PriceSpread | None = None
    gpus: tuple[str, ...] = ()
    min_gpu_memory_mib: float | None = None
    accelerated: bool | None = None
    max_usd_per_hour: float | None = None
    instances: tuple[str, ...] = ()
    max_gpu_memory_mib: float | None = None
    compute_capability: Range = ANY
    vcpus: Range = ANY
    memory_mib: Range = ANY

    @property
    def price_filter(self) -> Callable[[Price], bool] | None:
        """The test that a price has to pass; None where every price does."""
        kinds, listed_on, fresh_on = self.price_kinds, self.listed_on, self.fresh_on
        spread = self.price_spread
        if not kinds and listed_on is None and fresh_on is None and spread is None:
            return None
        return lambda price: (
            is_wanted(price, kinds, listed_on)
            and (fresh_on is None or not is_old(price, fresh_on))
            and (spread is None or spread.allows(price))
        )

    @property
    def asks_for_gpu(self) -> bool:
        """Whether it has a condition that only a GPU can meet."""
        memory = (self.min_gpu_memory_mib, self.max_gpu_memory_mib)
        return bool(self.gpus) or memory != (None, None) or self.compute_capability.limits

    @property
    def asks_for_facts(self) -> bool:
        """Whether it has a condition on the instance besides its name."""
        host = self.vcpus.limits or self.memory_mib.limits
        return self.asks_for_gpu or host or self.accelerated is not None


def matches_instance(
    known: InstanceType | PartialType, query: OfferQuery, capability: float | None = None
) -> bool:
    """Whether a type matches, apart from its price. Facts that are unknown of a type do not exclude it,
    except its GPU where the query names one."""
    accelerated = known.gpu_name is not None
    if isinstance(known, InstanceType):
        accelerated = is_accelerated(known)
    return (
        query.cloud in (None, ANY_CLOUD, known.cloud)
        and (not query.instances or known.name in query.instances)
        and query.accelerated in (None, accelerated)
        and (not query.gpus or any(is_gpu(known.gpu_name, name) for name in query.gpus))
        and capability in query.compute_capability
        and has_memory(known.gpu_memory_mib, query.min_gpu_memory_mib, query.max_gpu_memory_mib)
        and (known.vcpus is None or known.vcpus in query.vcpus)
        and (known.memory_mib is None or known.memory_mib in query.memory_mib)
    )


def has_memory(mib: float | None, least: float | None, most: float | None) -> bool:
    """Whether a GPU with `mib` of memory is sold as one of `least`..`most` MiB."""
    if least is not None and (mib is None or mib < ECC_SHARE * least):
        return False
    return most is None or (mib is not None and mib <= most)


def is_accelerated(instance: InstanceType) -> bool:
    """Whether a type has a GPU, or another accelerator (which may not run PyTorch at all)."""
    return instance.gpu_count > 0 or instance.accelerator is not None


def is_gpu(gpu_name: str | None, text: str) -> bool:
    """Whether a text names the GPU: 'NVIDIA A100 80GB' and 'A100' name 'A100-SXM4-80GB', 'T4' not 'T4G'."""
    if gpu_name is None:
        return False
    name, wanted = gpu_name.casefold(), text.casefold()
    return name == wanted or name.startswith(f"{wanted}-") or _is_alias(gpu_name, text)


@lru_cache(maxsize=4096)
def _is_alias(gpu_name: str, text: str) -> bool:
    """Whether a text is another name of the GPU; cached, since thousands of types have a few cards."""
    from advisor.domain.gpu_names import gpus_named  # few ask for a GPU by name

    return bool(gpus_named(text, (gpu_name,)))
