"""GPU data sheets beside what an hour of each costs."""

from __future__ import annotations

from typing import Any

from advisor.answers.words import Words
from advisor.catalog import Catalog, OfferQuery
from advisor.catalog.gpu_names import sheet_names
from advisor.catalog.gpu_prices import cheapest_by_gpu
from advisor.catalog.gpus import GpuSheet
from advisor.domain import Market
from advisor.questions.hardware import GpuWanted
from advisor.questions.requests import region_of
from advisor.render.gpus import gpu_rows, gpus_document


def gpus_document_of(catalog: Catalog, words: Words) -> dict[str, Any]:
    """`advisor.gpus/1`: the GPUs of `words["gpu"]` (all where it is None), their cheapest price by
    `cloud`, `region` and `market`, in the order of `sort_by`."""
    cloud, market = words["cloud"], words["market"]
    region = region_of(cloud, words.get("region"))
    query = OfferQuery(cloud=cloud, region=region, market=Market(market), accelerated=True)
    cheapest = cheapest_by_gpu(catalog.offers(query))
    chosen = _chosen(catalog, words.get("gpu") or GpuWanted())
    asked = {"cloud": cloud, "region": region, "market": market}
    return gpus_document(gpu_rows(chosen, cheapest, words["sort_by"]), asked)


def _chosen(catalog: Catalog, wanted: GpuWanted) -> list[GpuSheet]:
    """Every data sheet, or those that are named ('A100' is every A100) and within the ranges."""
    sheets = [one for one in catalog.gpu_sheets.values() if wanted.allows(one.gpu)]
    if not wanted.names:
        return sheets
    found = {one for name in wanted.names for one in sheet_names(name, catalog.gpu_sheets)}
    return [one for one in sheets if one.gpu.name in found]
