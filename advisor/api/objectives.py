"""A question as a plain function of settings, for tuners such as Optuna and Ray Tune."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any

from advisor.api.functions import predict, recommend
from advisor.errors import NoIntervalError, NoOfferError, UsageError
from advisor.questions.commands import PREDICT


class Objective:
    """Call it with a configuration; see `objective`."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._fields = dict(fields)

    def __call__(self, config: Mapping[str, Any]) -> dict[str, float]:
        """The figures of one configuration."""
        fields = {**self._fields, **config}
        if fields.get("instance"):
            return _figures(predict(**fields).to_dict())
        try:
            document = recommend(**fields).to_dict()
        except (NoOfferError, NoIntervalError):
            return _NOTHING
        return _figures(document["recommendation"]) if document["recommendation"] else _NOTHING

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self._fields.items())
        return f"advisor.objective({shown})"


_NOTHING = {
    "answered": 0.0, "usd_per_hour": inf, "usd_per_million": inf, "throughput_lower": 0.0,
    "throughput_median": 0.0, "throughput_upper": 0.0,
}  # fmt: skip


def objective(**fields: Any) -> Objective:
    """A function from a configuration (a dict of further fields) to a dict of floats.

    `fields` are those of `recommend`, or with an `instance`, here or in the configuration, those
    of `predict`. The figures: `usd_per_hour`, disk included; `throughput_lower`,
    `throughput_median` and `throughput_upper` in samples (tokens of a language model) per second;
    `usd_per_million` samples or tokens at the median; `answered`, 1 or 0. Where nothing answers,
    prices are infinite and rates 0. A configuration that contradicts itself raises `UsageError`.

        f = advisor.objective(task="training", model="resnet50", target_throughput=500)
        f({"precision": "amp", "batch_size": 64})["usd_per_hour"]
    """
    _refuse_unknown(fields)
    return Objective(fields)


def _refuse_unknown(fields: Mapping[str, Any]) -> None:
    """Before a tuner starts hundreds of trials of it."""
    from advisor.questions.commands import RECOMMEND
    from advisor.questions.listings import Sources

    known = {**RECOMMEND.fields, **PREDICT.fields, **Sources.fields}
    for name in fields:
        if name not in known:
            raise UsageError("there is no field '{name}'", name=name, field=name)


def _figures(spec: Mapping[str, Any]) -> dict[str, float]:
    rate, usd = spec["predicted"]["throughput"], spec["price"]["total_usd_per_hour"]
    return {
        "answered": 1.0,
        "usd_per_hour": usd,
        "usd_per_million": usd / (rate["median"] * 3600) * 1e6,
        **{f"throughput_{bound}": rate[bound] for bound in ("lower", "median", "upper")},
    }
