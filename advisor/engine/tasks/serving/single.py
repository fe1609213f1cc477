"""What one named instance does with a language model: no ranking, no price needed."""

from __future__ import annotations

from datetime import date

from msgspec.structs import replace

from advisor.catalog import Catalog, OfferQuery
from advisor.domain import FREE, Market, Offer, Price, Rejected
from advisor.domain.decision import Text
from advisor.domain.language import ServingPrediction
from advisor.domain.price_age import aged, aged_spec
from advisor.engine.offers import judged_offer
from advisor.engine.tasks.serving.front import latency_front, with_chosen
from advisor.engine.tasks.serving.options import options_on
from advisor.engine.tasks.serving.prepared import ServingPreparations, require_possible, solved_table
from advisor.engine.tasks.serving.rates import Replicas
from advisor.engine.tasks.serving.steps import steps_of
from advisor.engine.tasks.serving.task import ServingTask
from advisor.engine.tasks.serving.words import serving_assumptions, serving_warnings
from advisor.errors import CANNOT_RUN, UsageError
from advisor.questions.language import ServingQuestion, TuningQuestion


def predict_serving(
    request: ServingQuestion, preparations: ServingPreparations, name: str, *, today: date
) -> ServingPrediction:
    """What the instance type `name` does, split as is cheapest by output token, or as carries the
    load that is asked for. `UsageError` says why it cannot serve the model."""
    catalog, model = preparations.catalog, preparations.model
    require_possible(request, model)
    # Whoever names an instance wants to see what it does, and `calibrated` says how that is known.
    request = replace(request, allow_extrapolation=True, max_count=1)
    offer, price, notes = offer_named(request, catalog, name, today)
    options = notes if isinstance(notes, Rejected) else options_on(request, catalog, model, offer, notes)
    if isinstance(options, Rejected):
        raise UsageError(
            "{name} cannot serve {model}: {why}",
            name=name,
            model=model.name,
            why=options.detail,
            field="instance",
            code=CANNOT_RUN,
        )
    task, replicas = ServingTask(preparations), Replicas(request, options, preparations.predictor)
    table = solved_table(request, options, replicas)
    rows = task.rows_by_cost(request, table)
    row = int(rows[0]) if len(rows) else task.nearest_row(request, table)
    chosen = task.candidates(request, table, [row])[0]
    chosen = replace(chosen, spec=aged_spec(chosen.spec, today))
    version = preparations.predictor.engine_version(request.engine)
    return ServingPrediction(
        candidate=chosen,
        price=aged(price, today) if price else None,
        front=with_chosen(latency_front(request, options, replicas, 1, float(table.usd[row])), chosen),
        steps=steps_of(request, preparations, chosen),
        assumptions=serving_assumptions(request, model, version, chosen),
        warnings=serving_warnings(chosen, today),
    )


def offer_named(
    request: ServingQuestion | TuningQuestion, catalog: Catalog, name: str, today: date
) -> tuple[Offer, Price | None, tuple[Text, ...] | Rejected]:
    """A type in the region that is asked for, or in its cheapest, with what the user must mind or
    why it cannot be had; with a price of 0 where none is known, and then None."""
    instance = catalog.instance(name, catalog.cloud_of(name, request.cloud))
    region = request.region if instance.cloud == request.cloud else None
    query = OfferQuery(cloud=instance.cloud, region=region, market=request.market, instances=(name,))
    known, _ = catalog.cheapest(query, 1)
    if known:
        offer, price = known[0], known[0].price
    else:
        price = None
        free = Price(usd_per_hour=0.0, kind=FREE, as_of=today, source="")
        where = region or next(iter(catalog.regions_of(name, instance.cloud)), "")
        market = request.market or Market.ON_DEMAND
        closed = catalog.closed(instance, market, where)
        offer = Offer(instance=instance, region=where, market=market, price=free, closed=closed)
    notes = judged_offer(request, catalog, offer, needs_gpu=True)
    if isinstance(notes, Rejected) and notes.reason == "not_offered":
        return offer, price, (notes.detail,)
    return offer, price, notes
