"""Chooses the alternatives that an answer names: other GPUs, clouds and markets that are worth their cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

from advisor.domain import PRICE_KINDS
from advisor.render.borderline import modest
from advisor.render.facts import OF_A_SPEC, decision_of, run_usd

Record = Mapping[str, Any]
# A spec counts as faster, and as much faster, only above these ratios of speeds.
_FASTER, _MUCH_FASTER = 1.05, 2.0
# Another kind of spec gets a line up to this many times the chosen cost if its chance is known; if not, up to
# the second factor on the cost per sample and the third on the price.
_MOST_TIMES, _MOST_BY_SAMPLE, _MOST_WITHOUT = 3.0, 2.0, 10.0
_NEAR = 1.02
_FAR_SMALLER = 5.0


def other_kinds(document: Record) -> Sequence[Record]:
    """Return the first worthwhile alternative for each other GPU, cloud and market: one that `_is_worth`
    accepts and no other spec beats. The safe spec is left out, since it has a row already."""
    chosen, safe = document["recommendation"], decision_of(document).get("safe") or {}
    first: dict[Any, Record] = {}
    rivals = [chosen, *document["alternatives"]]
    worth = [each for each in document["alternatives"] if _is_worth(each, chosen)]
    for each in (chosen, *worth):
        if each is chosen or not any(_beats(rival, each) for rival in rivals if rival is not each):
            first.setdefault((*_kind(each), _usd(each) < _usd(chosen)), each)
    others = list(first.values())[1:]
    shown = (safe, (document.get("price_call") or {}).get("cheaper") or {})
    # A far smaller machine is easier to get, so it comes first.
    most = _MOST_TIMES * _usd(chosen) if chosen.get("run") else -inf
    cheap = (each for each in document["alternatives"] if _usd(each) <= most)
    sure = (each for each in cheap if (each["probability"] or 1.0) >= each["predicted"]["confidence"])
    small = min(sure, key=_hourly, default=chosen)
    if is_far_smaller(small, chosen):
        others = [small, *(each for each in others if each is not small)]
    return [
        each
        for each in others
        if not any(all(each[name] == spec.get(name) for name in OF_A_SPEC) for spec in shown)
    ]


def cheapest_step(document: Record) -> Record | None:
    """Return the first step of a served model (a smaller number format) that leads to the cheapest other
    spec; None if no step leads to one. Prices within `_NEAR` count as equal."""
    steps = document.get("serving", {}).get("steps", ())
    cheaper = [step for step in steps if step.get("instead")]
    most = _NEAR * min((step["instead"]["total_usd_per_hour"] for step in cheaper), default=0.0)
    return next((step for step in cheaper if step["instead"]["total_usd_per_hour"] <= most), None)


def _hourly(spec: Record) -> float:
    return float(spec["price"]["total_usd_per_hour"])


def is_far_smaller(spec: Record, chosen: Record) -> bool:
    """Return whether the hour of a spec costs less than the chosen one's by `_FAR_SMALLER`."""
    return _hourly(spec) * _FAR_SMALLER < _hourly(chosen)


def _kind(spec: Record) -> tuple[Any, ...]:
    gpu = spec["gpu"] or {}
    gpus = gpu.get("count") if spec.get("run") else None
    return gpu.get("name"), gpus, spec["cloud"], spec["market"], spec["count"] > 1


def _is_worth(spec: Record, chosen: Record) -> bool:
    """Return whether a spec is as sure as the chosen one and its cost is within the `_MOST` factors."""
    (usd, rate), (enough_usd, enough) = (
        (_usd(each), each["predicted"]["throughput"]["median"]) for each in (spec, chosen)
    )
    if None not in (spec["probability"], chosen["probability"]):
        is_as_sure = _percent(spec) >= _percent(chosen)
        return bool(is_as_sure and usd <= _MOST_TIMES * enough_usd)
    by_sample = usd * (1 if spec.get("run") else enough / rate)
    return bool(by_sample <= _MOST_BY_SAMPLE * enough_usd and usd <= _MOST_WITHOUT * enough_usd)


def _beats(spec: Record, other: Record) -> bool:
    """Return whether `spec` makes `other` pointless: `other` costs more or is less sure, and has no
    advantage: a clearly higher speed (at equal chance or for a run), no extrapolation, a firmer price,
    another market, or one instance instead of several. A run that is both dearer and much slower has none."""
    firm, other_firm = (PRICE_KINDS.index(each["price"]["kind"]) for each in (spec, other))
    dearer, surer = _usd(other) - _usd(spec), _percent(spec) - _percent(other)
    is_same_market, is_much_faster = (
        other["market"] == spec["market"],
        _speed(spec) >= _MUCH_FASTER * _speed(other),
    )
    if spec.get("run") and is_same_market and is_much_faster and min(dearer, surer) >= 0:
        return True
    if not is_same_market or other_firm < firm or other["count"] == 1 < spec["count"]:
        return False
    is_faster = _speed(other) >= _FASTER * _speed(spec) and (surer == 0 or bool(spec.get("run")))
    is_known = surer == 0 and spec["extrapolation"] and not other["extrapolation"]
    return dearer >= 0 and surer >= 0 and dearer + surer > 0 and not is_faster and not is_known


def _percent(spec: Record) -> int:
    """Return the chance that a spec meets the question, in whole percent as it is printed."""
    return round(100 * modest(1.0 if spec["probability"] is None else spec["probability"]))


def _speed(spec: Record) -> float:
    """Return a spec's speed: runs per hour if the question is about a run, else the median rate."""
    run = spec.get("run")
    return float(1 / run["hours"]["median"] if run else spec["predicted"]["throughput"]["median"])


def ranked_usd(spec: Record) -> float:
    """Return the dollars by which specs rank: those of a run, else of an hour, or of a million if the
    question sets no target."""
    cost = spec.get("cost") or {}
    tokens, samples = cost.get("usd_per_million_output_tokens"), cost.get("usd_per_million_samples")
    if spec.get("run") or spec["probability"] is not None or not (tokens or samples):
        return _usd(spec)
    return float(tokens["median"] if tokens else samples or 0.0)


def _usd(spec: Record) -> float:
    """Return the dollars that a spec costs: per run if the question is about a run, else per hour."""
    run = run_usd(spec)
    return float(spec["price"]["total_usd_per_hour"] if run is None else run)
