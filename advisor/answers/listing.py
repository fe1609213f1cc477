"""Lists of offers, instance types, GPUs and networks."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from advisor.catalog import Catalog, OfferQuery, PartialOffer
from advisor.catalog.gpus import cheapest_by_gpu, sheet_names
from advisor.domain import DataKind, Market, Offer, Provenance, Task
from advisor.domain.words import ANY_MARKET, KvPrecision
from advisor.models.performance.networks import NetworkFacts, bundled_networks
from advisor.models.zoo.networks import NETWORKS, NetworkInfo
from advisor.questions.listings import Gpus, InstanceDetails, Offers
from advisor.questions.settled import region_of
from advisor.questions.values import GpuFilter
from advisor.render.catalog import catalog_head, offer_document, offer_order, type_document
from advisor.render.listings import GPUS_SCHEMA, ListedOffer, gpu_rows
from advisor.render.records import price_block

if TYPE_CHECKING:
    from advisor.models.performance import PerformanceModel


def query_of(question: Offers) -> OfferQuery:
    """The catalogue query that a question about offers amounts to."""
    market = question.market
    return OfferQuery(
        cloud=question.cloud.lower(),
        region=question.region,
        market=None if market == ANY_MARKET else Market(market),
        **(question.gpu or GpuFilter()).attributes(),
        vcpus=question.vcpus,
        memory_mib=question.memory_mib,
        instances=question.instance,
        max_usd_per_hour=question.max_price,
    )


class Page(NamedTuple):
    """A part of the matching offers, cheapest first, and the number of all matching offers."""

    offers: list[ListedOffer]
    total: int

    def document(self, known: Catalog) -> dict[str, Any]:
        """`advisor.catalog/1`, with the offers of this page."""
        return catalog_head(known) | {"offers": [offer_document(*offer) for offer in self.offers]}


def page_of(known: Catalog, query: OfferQuery, first: int = 0, count: int | None = None) -> Page:
    """`count` offers (None: all) from index `first` (0 is the cheapest), without building dearer ones.
    Offers in a currency without a known exchange rate come last."""
    end = sys.maxsize if count is None else first + count
    rising, total = list[Offer | PartialOffer](), 0
    if query.cloud in (None, "any") or known.is_in_dollars(query.cloud):
        whole, total = known.cheapest(query, end)
        partial = known.partial_offers(query)
        rising, total = [*whole, *partial], total + len(partial)
    listed = [ListedOffer(offer) for offer in sorted(rising, key=offer_order)[:end]]
    for currency, offers in known.unconverted_offers(query).items():
        listed += [ListedOffer(offer, currency) for offer in offers[: max(0, end - total)]]
        total += len(offers)
    return Page(listed[first:end], total)


def shown_type(known: Catalog, instance_type: str, question: InstanceDetails) -> dict[str, Any]:
    """`advisor.instance-type/1` of a type, with its prices by region. Raises `UsageError` for a type, cloud
    or region that nobody knows."""
    name = known.name_of(instance_type, question.cloud)
    cloud = known.partial_type(name, question.cloud).cloud
    return type_document(known, name, cloud) | {
        "market": str(question.market),
        "prices": _prices(known, name, cloud, question.region, question.market),
    }


def _prices(
    known: Catalog, name: str, cloud: str, region: str | None, market: Market
) -> dict[str, dict[str, Any]]:
    """The known prices of a type by region; raises `UsageError` for an unknown region."""
    if region is not None:
        known.require_region(region, cloud)
    regions = [region] if region else list(known.regions(cloud))
    price_in = {where: known.price(name, where, market, cloud) for where in regions}
    in_dollars = {where: price_block(price) for where, price in price_in.items() if price}
    query = OfferQuery(cloud=cloud, region=region, market=market, instances=(name,))
    return in_dollars | {
        offer.region: price_block(offer.price, currency)
        for currency, offers in known.unconverted_offers(query).items()
        for offer in offers
    }


def gpus_document_of(catalog: Catalog, question: Gpus) -> dict[str, Any]:
    """`advisor.gpus/1`: the GPUs that the question names (else all) with their cheapest prices, sorted."""
    cloud, market = question.cloud, question.market
    region = region_of(cloud, question.region)
    query = OfferQuery(cloud=cloud, region=region, market=market, accelerated=True)
    cheapest = cheapest_by_gpu(catalog.offers(query))
    wanted = question.gpu or GpuFilter()
    named = {sheet for name in wanted.names for sheet in sheet_names(name, catalog.gpu_sheets)}
    sheets = [sheet for sheet in catalog.gpu_sheets.values() if wanted.allows(sheet.gpu)]
    chosen = [sheet for sheet in sheets if not named or sheet.gpu.name in named]
    asked = {"cloud": cloud, "region": region, "market": str(market)}
    return {"schema": GPUS_SCHEMA, "asked": asked, "gpus": gpu_rows(chosen, cheapest, question.sort_by)}


def language_models_document(search: str | None) -> dict[str, Any]:
    """`advisor.language-models/1`: models whose name contains `search` or matches it as a pattern;
    `UsageError` where none does, or where the named model generates no text."""
    from advisor.models.language.configs import bundled_language_models  # of language models alone
    from advisor.models.language.memory import kv_bytes_per_token, weight_gib
    from advisor.models.language.serving import bundled_serving_predictor

    known, predictor = bundled_language_models(), bundled_serving_predictor()
    names = [name for name in known.names() if search is None or _is_like(search, name)]
    if search is not None and not names:
        names = [known.find(search).name]
    return {
        "schema": "advisor.language-models/1",
        "models": [
            {
                "name": model.name,
                "family": model.family,
                "parameters": round(model.parameters),
                "active_parameters": round(model.active_parameters),
                "layers": model.layers,
                "experts": model.experts,
                "max_context": model.max_context,
                "precision": str(model.own_precision),
                "weights_gib": weight_gib(model, model.own_precision),
                "kv_bytes_per_token": kv_bytes_per_token(model, model.own_kv_precision or KvPrecision.BF16),
                "measured": predictor.has_shape(model),
            }
            for model in map(known.find, names)
        ],
    }


def _is_like(search: str, *texts: str) -> bool:
    """True if one of the texts contains `search`, or matches it as a pattern, in any case of letters."""
    wanted = search.casefold()
    if any(sign in wanted for sign in "*?["):
        return any(fnmatchcase(text.casefold(), wanted) for text in texts)
    return any(wanted in text.casefold() for text in texts)


SCHEMA = "advisor.networks/1"
_COMPUTED = (Task.TRAINING, Task.INFERENCE)
# The extra of this package that builds networks of each library; no extra builds other libraries' networks.
_NEEDS = {"torchvision": "sweep", "timm": "zoo"}


def networks_document(model: PerformanceModel | None, networks: Iterable[Listed]) -> dict[str, Any]:
    """`advisor.networks/1`; the provenance of rates is null without a performance model."""
    return {"schema": SCHEMA, "networks": [network.document(model) for network in networks]}


class Listed(NamedTuple):
    """A network of the table, with its entry in the zoo where trials can run it."""

    name: str
    entry: NetworkFacts
    info: NetworkInfo | None

    def matches(self, search: str) -> bool:
        """True if its name, title or family contains `search`, or matches it as a pattern."""
        title = self.info.title if self.info else ""
        bare = self.name.rpartition("/")[2]
        return _is_like(search, self.name, f"{self.entry.library}/{bare}", title, self.entry.family)

    def document(self, model: PerformanceModel | None) -> dict[str, Any]:
        """The network as a JSON-ready record."""
        entry = self.entry
        return {
            "name": self.name,
            **_table_facts(entry),
            **(_zoo_facts(self.info, entry) if self.info else {}),
            "library": entry.library,
            "family": entry.family,
            "input": entry.input,
            "sample": entry.sample,
            "rates": {str(task): _rate_provenance(self.name, task, model) for task in _COMPUTED},
            "gpus_measured": {str(task): gpus_measured(self.name, task, model) for task in _COMPUTED},
        }


def listed_networks(model: PerformanceModel | None, search: str | None = None) -> list[Listed]:
    """The networks that match `search` (None: all), sorted by family and name."""
    table = model.table if model else bundled_networks()
    networks = (Listed(name, table[name], NETWORKS.get(name)) for name in table.names)
    kept = (network for network in networks if search is None or network.matches(search))
    return sorted(kept, key=lambda network: (network.entry.family, network.name))


def _table_facts(entry: NetworkFacts) -> dict[str, Any]:
    computed = _COMPUTED if entry.trains else (Task.INFERENCE,)
    read = [Task.PREPROCESSING] if entry.data is DataKind.IMAGE else []
    return {
        "title": entry.name,
        "kind": str(entry.data),
        "tasks": [str(task) for task in (*computed, *read)],
        "input_shape": list(entry.input_shape),
        "unit": entry.sample,
        "samples_per_row": 1,
        "parameters": entry.parameters,
        "gmacs_per_sample": entry.gmacs,
        "needs": _NEEDS.get(entry.library),
    }


def _zoo_facts(info: NetworkInfo, entry: NetworkFacts) -> dict[str, Any]:
    return {
        "title": info.title,
        "kind": str(info.kind),
        "tasks": [str(task) for task in info.tasks],
        "input_shape": list(info.input_shape),
        "unit": info.unit,
        "samples_per_row": info.samples_per_row,
        "gmacs_per_sample": entry.gmacs / info.samples_per_row,
        "needs": info.needs,
    }


def gpus_measured(name: str, task: str, model: PerformanceModel | None) -> int:
    """The number of GPUs on which the network was measured with PyTorch, in any precision."""
    if model is None:
        return 0
    return _gpus_by_network(model.step_times.cells).get((name.rpartition("/")[2], str(task)), 0)


@lru_cache(maxsize=8)
def _gpus_by_network(cells: frozenset[str]) -> Mapping[tuple[str, str], int]:
    """The number of GPUs by network and task, from cells such as 'resnet50/training/amp/T4'."""
    parts = (cell.split("/", 3) for cell in cells)
    return Counter((name, task) for name, task, _ in {(p[0], p[1], p[3]) for p in parts})


def _rate_provenance(name: str, task: Task, model: PerformanceModel | None) -> str | None:
    """The best provenance that any GPU's rate has; None without a performance model."""
    if model is None:
        return None
    published = gpus_measured(name, task, model) > 0
    return str(Provenance.PUBLISHED if published else Provenance.MODELLED)
