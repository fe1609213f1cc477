"""GPU data sheets beside what an hour of each costs."""

from __future__ import annotations

from typing import Any

from advisor.catalog import Catalog, OfferQuery
from advisor.catalog.gpu_names import sheet_names
from advisor.catalog.gpu_prices import cheapest_by_gpu
from advisor.catalog.instances import GpuSheet
from advisor.questions.models import Gpus
from advisor.questions.requests import region_of
from advisor.questions.values import GpuFilter
from advisor.render.gpus import gpu_rows, gpus_document


def gpus_document_of(catalog: Catalog, question: Gpus) -> dict[str, Any]:
    """`advisor.gpus/1`: the GPUs that are asked for (else all), with their cheapest price, in
    the order of `sort_by`."""
    cloud, market = question.cloud, question.market
    region = region_of(cloud, question.region)
    query = OfferQuery(cloud=cloud, region=region, market=market, accelerated=True)
    cheapest = cheapest_by_gpu(catalog.offers(query))
    chosen = _chosen(catalog, question.gpu or GpuFilter())
    asked = {"cloud": cloud, "region": region, "market": str(market)}
    return gpus_document(gpu_rows(chosen, cheapest, question.sort_by), asked)


def _chosen(catalog: Catalog, wanted: GpuFilter) -> list[GpuSheet]:
    """Every data sheet, or those that are named ('A100' is every A100) and within the ranges."""
    sheets = [one for one in catalog.gpu_sheets.values() if wanted.allows(one.gpu)]
    if not wanted.names:
        return sheets
    found = {one for name in wanted.names for one in sheet_names(name, catalog.gpu_sheets)}
    return [one for one in sheets if one.gpu.name in found]
