"""The functions of the Python API that answer questions, and the objective for hyperparameter tuners."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import inf
from typing import Any

from advisor.answers import ask
from advisor.answers.context import load_context
from advisor.answers.listing import (
    gpus_document_of,
    language_models_document,
    listed_networks,
    networks_document,
    page_of,
    query_of,
)
from advisor.api.answers import Answer, Comparison, Listing, Memory, Prediction, Recommendation
from advisor.api.calling import Call, asks, errors_with_fields
from advisor.catalog import load_catalog
from advisor.domain.words import LanguageTask
from advisor.errors import CANNOT_RUN, AdvisorError, NoIntervalError, NoOfferError, UsageError
from advisor.questions import commands
from advisor.questions.listings import Gpus, Offers, Sources
from advisor.render import listings


class Objective:
    """The function that `objective` returns: a configuration in, a dict of figures out."""

    # Ray Tune names its trials by this.
    __name__ = "advisor_objective"

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._fields = dict(fields)

    def __call__(self, config: Mapping[str, Any]) -> dict[str, float]:
        """The figures of one configuration, as `objective` lists them."""
        target = _target({**self._fields, **config})
        try:
            answer = self.answer(config)
        except (NoOfferError, NoIntervalError):
            return dict(_NOTHING)
        except AdvisorError as error:
            if error.code == CANNOT_RUN:
                return dict(_NOTHING)
            raise  # an invalid question: no other configuration would help
        spec = answer.to_dict()
        if isinstance(answer, Recommendation):
            spec, target = spec["recommendation"], 0.0
        if not spec or spec["price"] is None or spec["predicted"]["throughput"]["lower"] < target:
            return dict(_NOTHING)
        rate, usd = spec["predicted"]["throughput"], spec["price"]["total_usd_per_hour"]
        return {
            "answered": 1.0,
            "usd_per_hour": usd,
            "usd_per_million": usd / (rate["median"] * 3600) * 1e6,
            **{f"throughput_{bound}": rate[bound] for bound in ("lower", "median", "upper")},
        }

    def answer(self, config: Mapping[str, Any]) -> Recommendation | Prediction:
        """The full answer for one configuration, such as the best that a tuner found: a prediction if an
        `instance` is given, else a recommendation. Raises what `predict` or `recommend` raises."""
        fields = {**self._fields, **config}
        if not fields.get("instance"):
            return recommend(**fields)
        # `predict` takes no target; `__call__` compares the prediction with it.
        return predict(**{k: v for k, v in fields.items() if k != "target_throughput"})

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self._fields.items())
        return f"advisor.objective({shown})"


_NOTHING = {"answered": 0.0, "usd_per_hour": inf, "usd_per_million": inf}
_NOTHING |= {f"throughput_{bound}": 0.0 for bound in ("lower", "median", "upper")}


def objective(**fields: Any) -> Objective:
    """A function that takes a configuration (a dict of further fields) and returns a dict of floats.

    `fields` are those of `recommend`, or those of `predict` if they or the configuration name an `instance`.
    The figures: `usd_per_hour`, disk included; `throughput_lower`, `throughput_median` and `throughput_upper`
    in samples (tokens of a language model) per second; `usd_per_million` samples or tokens at the median;
    `answered`, 1 or 0. It is 0, with infinite prices and rates of 0, if no spec qualifies, or the instance
    cannot run the workload, has no known price, or has a lower bound below `target_throughput`. A
    contradictory configuration raises `UsageError`.

        f = advisor.objective(task="training", model="resnet50", target_throughput=500)
        f({"precision": "amp", "batch_size": 64})["usd_per_hour"]
        f.answer({"precision": "amp", "batch_size": 64}).recommendation.instance_type
    """
    known = {**commands.RECOMMEND.fields, **commands.PREDICT.fields, **Sources.fields}
    for name in fields:  # before a tuner starts hundreds of trials
        if name not in known:
            raise UsageError("there is no field '{name}'", name=name, field=name)
    return Objective(fields)


def _target(fields: Mapping[str, Any]) -> float:
    """The `target_throughput`, parsed as `recommend` does; 0 if there is none."""
    name = "target_throughput"
    target = fields.get(name)
    if target is None:
        return 0.0
    with errors_with_fields():
        return float(commands.RECOMMEND.fields[name].kind.from_text(str(target), name))


@asks(commands.RECOMMEND, *Sources.fields)
def recommend(call: Call) -> Recommendation:
    """The cheapest instance and disk that will really reach a throughput.

    Where nothing meets the question, `answer.recommendation` is None, and `answer.require()` raises
    `NoOfferError`. Raises `UsageError` for what cannot be asked, `NoIntervalError`, `StalePriceError` with
    `strict`, and `NoOfferError` where nothing is sold at all."""
    return Recommendation(ask.recommend(call.sources, call.question), call)


@asks(commands.PREDICT, *Sources.fields)
def predict(call: Call) -> Prediction:
    """The throughput of one instance or GPU, with its interval and its bottleneck.

    Raises `UsageError` for what cannot be asked, and `NoIntervalError`."""
    result = ask.predict(call.sources, call.question)
    return Prediction(result.document, result.text)


@asks(commands.COMPARE, *Sources.fields)
def compare(call: Call) -> Comparison:
    """Instances, or GPUs by themselves, against a baseline; `model` may be several networks.

    Raises `UsageError` for what cannot be asked, and `NoIntervalError`."""
    return Comparison(ask.compare(call.sources, call.question))


@asks(commands.MEMORY)
def memory(call: Call) -> Memory:
    """Peak GPU memory and its parts, the GPUs that it fits, and the largest batch on each.

    A network of your own, or another size of its input, is traced here (torch, about 30 s). Raises
    `UsageError` for what cannot be asked, `MeasuringError` where torch is missing."""
    result = ask.memory(load_catalog(), call.question)
    return Memory(result.document, result.text, "gpus")


@asks(Gpus)
def gpus(call: Call) -> Answer:
    """GPUs by rate, memory, bandwidth, link, power and price."""
    document = gpus_document_of(load_catalog(), call.question)
    return Listing(lambda: document, lambda: listings.gpus_text(document["gpus"]), "gpus")


@asks(Offers, "cny_per_usd")
def offers(call: Call) -> Answer:
    """Priced offers, cheapest first; `str()` has the first 40."""
    catalog = load_catalog(cny_per_usd=call.sources.cny_per_usd)
    page = page_of(catalog, query_of(call.question))
    return Listing(
        partial(page.document, catalog),
        lambda: listings.offers_text(page.offers[: listings.SHOWN_OFFERS], page.total),
        "offers",
    )


def networks(search: str | None = None, *, task: str | None = None) -> Answer:
    """The known networks, and whether their rates are published or modelled; for the tasks generation and
    finetuning, the known language models.

    `search` is a part of a name, title or family, or a pattern ('timm/vit_base*'). If nothing matches, the
    answer has no networks."""
    if task in set(LanguageTask):
        with errors_with_fields():
            known = language_models_document(search)
        return Listing(lambda: known, partial(listings.language_models_text, known["models"]), "models")
    with errors_with_fields():
        model = load_context().model
    document = networks_document(model, listed_networks(model, search))
    text = listings.networks_text if search else listings.families_text
    return Listing(lambda: document, partial(text, document["networks"]), "networks")
