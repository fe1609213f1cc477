"""The functions that ask: each takes the fields of a question, and gives its answer."""

from __future__ import annotations

from functools import partial

from advisor.answers import ask
from advisor.answers.context import load_context
from advisor.answers.listing import gpus_document_of, listed_networks, networks_document, page_of, query_of
from advisor.api.answers import Answer, Comparison, Listing, Memory, Prediction, Recommendation
from advisor.api.calling import Call, asks, errors_with_fields
from advisor.catalog import load_catalog
from advisor.questions import commands
from advisor.questions.listings import Gpus, Offers, Sources
from advisor.render.listings import SHOWN_OFFERS, families_text, gpus_text, networks_text, offers_text


@asks(commands.RECOMMEND, *Sources.fields)
def recommend(call: Call) -> Recommendation:
    """The cheapest instance and disk that will really reach a throughput.

    Where nothing meets the question, `answer.recommendation` is None, and `answer.require()`
    raises `NoOfferError`. Raises `UsageError` for what cannot be asked, `NoIntervalError`,
    `StalePriceError` with `strict`, and `NoOfferError` where nothing is sold at all.
    """
    return Recommendation(ask.recommend(call.sources, call.question), call)


@asks(commands.PREDICT, *Sources.fields)
def predict(call: Call) -> Prediction:
    """The throughput of one instance or GPU, with its interval and its bottleneck.

    Raises `UsageError` for what cannot be asked, and `NoIntervalError`.
    """
    result = ask.predict(call.sources, call.question)
    return Prediction(result.document, result.text)


@asks(commands.COMPARE, *Sources.fields)
def compare(call: Call) -> Comparison:
    """Instances, or GPUs by themselves, against a baseline; `model` may be several networks.

    Raises `UsageError` for what cannot be asked, and `NoIntervalError`.
    """
    return Comparison(ask.compare(call.sources, call.question))


@asks(commands.MEMORY)
def memory(call: Call) -> Memory:
    """Peak GPU memory and its parts, the GPUs that it fits, and the largest batch on each.

    A network of your own, or another size of its input, is traced here (torch, about 30 s).
    Raises `UsageError` for what cannot be asked, `MeasuringError` where torch is missing.
    """
    result = ask.memory(load_catalog(), call.question)
    return Memory(result.document, result.text, "gpus")


@asks(Gpus)
def gpus(call: Call) -> Answer:
    """GPUs by rate, memory, bandwidth, link, power and price."""
    document = gpus_document_of(load_catalog(), call.question)
    return Listing(lambda: document, lambda: gpus_text(document["gpus"]), "gpus")


@asks(Offers, "cny_per_usd")
def offers(call: Call) -> Answer:
    """Priced offers, cheapest first; `str()` has the first 40."""
    catalog = load_catalog(cny_per_usd=call.sources.cny_per_usd)
    page = page_of(catalog, query_of(call.question))
    return Listing(
        partial(page.document, catalog), lambda: offers_text(page.offers[:SHOWN_OFFERS], page.total), "offers"
    )


def networks(search: str | None = None) -> Answer:
    """The networks that can be asked for, with what is known of their rates.

    `search` is a part of a name, title or family, or a pattern ('timm/vit_base*'); nothing that is
    like it gives no networks.
    """
    with errors_with_fields():
        model = load_context().model
    document = networks_document(model, listed_networks(model, search))
    text = networks_text if search else families_text
    return Listing(lambda: document, partial(text, document["networks"]), "networks")
