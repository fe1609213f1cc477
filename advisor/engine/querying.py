"""What the catalogue is asked for a request."""

from __future__ import annotations

from advisor.catalog import Catalog, OfferQuery
from advisor.domain import MemoryFormat, Offer, Precision, Request, Stack, Task
from advisor.records import replace


def query_of(request: Request) -> OfferQuery:
    """What the catalogue is asked for first: types with an accelerator where it may compute the
    task; `cpu_only` looks at the others."""
    return OfferQuery(
        cloud=request.cloud,
        region=request.region,
        market=request.market,
        gpus=request.gpus,
        min_gpu_memory_mib=request.min_gpu_memory_mib,
        max_gpu_memory_mib=request.max_gpu_memory_mib,
        compute_capability=request.compute_capability,
        vcpus=request.vcpus,
        memory_mib=request.memory_mib,
        accelerated=True if _needs_accelerator(request) else None,
    )


def _needs_accelerator(request: Request) -> bool:
    return request.accelerated_only or request.task is not Task.PREPROCESSING


def offers_of(request: Request, catalog: Catalog, query: OfferQuery | None = None) -> list[Offer]:
    """Offers in the region that is asked for; without one, of each type those in the regions
    where it could be cheapest with a disk."""
    query = query or query_of(request)
    return catalog.offers(query) if request.region else catalog.best_places(query)


def cpus_may_compete(request: Request) -> bool:
    """Whether a CPU may do what is asked: a network, and nothing that asks for a GPU."""
    return request.task is not Task.PREPROCESSING and not asks_for_gpu(request)


def cpu_rates_are_known(request: Request) -> bool:
    """Whether CPUs were measured with such arithmetic: eager, contiguous, in fp32."""
    eager = request.stack is Stack.EAGER and request.memory_format is MemoryFormat.CONTIGUOUS
    return eager and request.precision is Precision.FP32


def asks_for_gpu(request: Request) -> bool:
    """Whether an instance without a GPU is not what is asked for."""
    return request.accelerated_only or query_of(request).asks_for_gpu


def cpu_only_query(request: Request) -> OfferQuery:
    """The same for types without an accelerator."""
    return replace(query_of(request), accelerated=False)
