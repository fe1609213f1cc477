"""Notes on offers that an answer leaves out although its question allows them: clouds, currencies,
old prices."""

from __future__ import annotations

from datetime import date

from msgspec.structs import replace

from advisor.catalog import Catalog, OfferQuery
from advisor.catalog.prices import RATE_VARIABLE
from advisor.domain import Market
from advisor.engine.candidates import offers_in, place_query
from advisor.messages import FieldName, Message
from advisor.naming import covers_clouds
from advisor.questions.spec import SpecQuestion

COMMITMENTS = tuple(market for market in Market if market.startswith("commitment"))


def left_out(request: SpecQuestion, catalog: Catalog, today: date, *, strict: bool) -> tuple[Message, ...]:
    """Clouds without a region of the name that a question about every cloud gives, and how many
    types have no price that is not old `today`, where `strict` asks for one."""
    query = place_query(request, accelerated=None)
    notes = [
        _clouds(request, catalog),
        _without_commitments(catalog, query),
        _old(request, catalog, today) if strict else None,
    ]
    return (*(note for note in notes if note is not None), *unconverted_notes(catalog, query))


def unconverted_notes(catalog: Catalog, query: OfferQuery) -> list[Message]:
    """A note for each currency without a known rate, with the clouds that have prices in it."""
    return [
        Message(
            "prices in {currency} are left out ({clouds}): no exchange rate is set; {variable}=0.9 sets one",
            currency=currency,
            clouds=clouds,
            variable=RATE_VARIABLE.format(currency),
        )
        for currency, clouds in catalog.unconverted(query).items()
    ]


def _clouds(request: SpecQuestion, catalog: Catalog) -> Message | None:
    region = request.region
    if region is None or not covers_clouds(request):
        return None
    others = [name for name in catalog.clouds if region not in catalog.known_regions(name)]
    if not others:
        return None
    return Message(
        "{field} {region} leaves out the clouds without such a region: {clouds}",
        field=FieldName("region"),
        region=region,
        clouds=others,
    )


def _without_commitments(catalog: Catalog, query: OfferQuery) -> Message | None:
    """Most clouds sell commitments, under whatever name: reservations, savings plans."""
    clouds = catalog.without_prices(query) if query.market in COMMITMENTS else []
    if not clouds:
        return None
    return Message(
        "clouds left out, as their commitment prices are not known offline: {clouds}", clouds=clouds
    )


def _old(request: SpecQuestion, catalog: Catalog, today: date) -> Message | None:
    known, fresh = (
        {
            (offer.instance.cloud, offer.instance.name)
            for offer in offers_in(catalog, place_query(variant, accelerated=None))
        }
        for variant in (request, replace(request, fresh_on=today))
    )
    count = len(known - fresh)
    if not count:
        return None
    return Message(
        "{field} leaves out {count:,} types: every price of theirs is older than its source keeps",
        field=FieldName("strict"),
        count=count,
    )
