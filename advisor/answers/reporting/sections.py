"""Builds the section of one workload in a report: answer, curves, measurements, sources and data ages."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from functools import cache
from typing import Any

from msgspec.structs import replace

from advisor.answers.context import Context
from advisor.answers.curves import Subject, curves, curves_block, gpu_memory_block, sensitivity
from advisor.answers.networks import explained_answer
from advisor.catalog import Catalog
from advisor.domain import (
    HOURS_PER_MONTH,
    Candidate,
    Disk,
    Market,
    Measurement,
    Price,
    Provenance,
    Recommendation,
    Spec,
    Status,
    Task,
)
from advisor.domain.money import aged
from advisor.engine.judging import LEAST_OF_FRONT, pareto_front, specs_of, worth_taking
from advisor.engine.table import Table
from advisor.errors import AdvisorError
from advisor.files import user_folder
from advisor.messages import Message
from advisor.models.bundled import FOLDER
from advisor.models.performance.usable import why_not
from advisor.models.zoo.networks import can_be_run
from advisor.render.borderline import verify_command
from advisor.render.facts import (
    Drawn,
    answer_facts,
    bottleneck_facts,
    break_evens,
    drawn_rows,
    per_million,
    per_month,
)
from advisor.render.records import candidate_block, explanation_document, fields, price_block, spec_fields
from advisor.render.text import AnyAnswer
from advisor.sweeps.formats import measurement_from_dict
from advisor.sweeps.quality.issues import refusal

BUNDLED, STORE = "bundled", "store"
MEASUREMENTS = FOLDER / "measurements.jsonl"
# The resources that curves vary -> their fields in measured rows.
_MEASURED_FIELD = {"vcpus": "vcpus", "memory": "memory_mib", "disk": "disk_read_mib_per_second"}


def measured_rows(network: str, task: Task) -> list[dict[str, Any]]:
    """One row per good measurement of the network and task, with its conditions, sorted by vCPUs; the user's
    measurements replace bundled ones of the same trial."""
    key = network, str(task)
    by_trial = {row["trial_id"]: row for row in _bundled() if (row["network"], row["task"]) == key}
    by_trial |= {row["trial_id"]: row for row in _rows(_stored(*key), STORE)}
    return sorted(
        by_trial.values(),
        key=lambda row: (
            *(row["vcpus"], row["memory_mib"]),
            row["disk_read_mib_per_second"] or math.inf,
            row["trial_id"],
        ),
    )


def nearest_slice(
    rows: Sequence[Mapping[str, Any]], varied: str, spec: Mapping[str, float | None]
) -> list[str]:
    """Ids of the trials to draw with a curve over `varied`: they differ only in `varied`, and their other
    resources are the measured ones nearest to `spec`. Rows and `spec` have `vcpus`, `memory_mib` and
    `disk_read_mib_per_second`; None: no limit."""
    left = list(rows)
    for name in _MEASURED_FIELD.values():
        if name != varied and left:
            near = min((_distance(row[name], spec[name]) for row in left), default=0.0)
            left = [row for row in left if _distance(row[name], spec[name]) == near]
    return [row["trial_id"] for row in left]


def _distance(number: float | None, other: float | None) -> float:
    """The absolute log ratio of two amounts; None (no limit) counts as 1e6."""
    return abs(math.log(number or 1e6) - math.log(other or 1e6))


@cache
def _bundled() -> list[dict[str, Any]]:
    lines = filter(None, MEASUREMENTS.read_text().splitlines())
    return _rows((measurement_from_dict(json.loads(line)) for line in lines), BUNDLED)


def _stored(network: str, task: str) -> Sequence[Measurement]:
    """Successful measurements in the user's store; empty where there is no store, as for most users."""
    own = user_folder() / "measurements.sqlite"
    if not os.environ.get("ADVISOR_DATABASE_URL") and not own.is_file():
        return ()
    from contextlib import closing

    from advisor.store.measurements import open_store

    wanted = {"network": network, "task": task, "status": str(Status.OK)}
    with closing(open_store(reading=True)) as store:
        return store.read(wanted=wanted).measurements


def _rows(measurements: Iterable[Measurement], origin: str) -> list[dict[str, Any]]:
    """Rows of the measurements that a fit would take: valid, held to their limits, with their data read."""
    return [
        _row(measurement, rate, origin)
        for measurement in measurements
        if not refusal(measurement) and not why_not(measurement, (measurement.trial.workload.network,))
        if (rate := measurement.throughput_samples_per_second) is not None
    ]


def _row(measurement: Measurement, rate: float, origin: str) -> dict[str, Any]:
    workload, has = measurement.trial.workload, measurement.trial.resources
    return {
        "trial_id": measurement.trial.trial_id,
        "network": workload.network,
        "task": str(workload.task),
        "batch_size": workload.batch_size,
        "precision": str(workload.precision),
        "dataset": workload.dataset.name,
        "vcpus": has.vcpus,
        "memory_mib": has.memory_mib,
        "disk_type": has.disk.type,
        "disk_read_mib_per_second": has.disk.read_mib_per_second,
        "accelerator": str(measurement.trial.accelerator),
        "cpu_model": str(measurement.environment.get("cpu_model") or "unknown"),
        "samples_per_second": rate,
        "provenance": str(Provenance.MEASURED),
        "origin": origin,
        "measured_on": measurement.started_at[:10] or None,
    }


def evidence(subject: Subject, explanation: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """The source of each fact behind the prediction, and its distance from the measured rows; first the GPU's
    rate, where one was published or measured for this network, GPU and precision."""
    rows = [] if explanation is None else [dict(row) for row in explanation["measured_range"]]
    published = _published_rate(subject)
    return [*([published] if published else []), *rows]


def _published_rate(subject: Subject) -> dict[str, Any] | None:
    card = subject.context.catalog.gpu_of(subject.instance)
    if card is None or subject.candidate.workload.task is Task.PREPROCESSING:
        return None
    model, workload = subject.context.model, subject.candidate.workload
    provenance = model.step_times.provenance(workload, card, model.table.of(workload))
    if provenance is Provenance.MODELLED:
        return None
    return {
        "subject": "gpu_rate",
        "stage": "accelerator",
        "matters": True,
        "inside": True,
        "times": 1.0,
        "detail": Message(
            "the rate on a {card} is {provenance}", card=card.name, provenance=Message(str(provenance))
        ),
    }


def ages(
    spec: Spec, measured: Sequence[Mapping[str, Any]], regions: Sequence[Mapping[str, Any]], today: date
) -> list[dict[str, Any]]:
    """The dates and ages of the data behind an answer, oldest first: prices, instance facts, measurements."""
    price, disk, facts = spec.offer.price, spec.disk.price, spec.offer.instance
    rows = [_age("instance_price", price.as_of, today, price.kind, price.source)]
    if disk:
        rows.append(_age("disk_price", disk.as_of, today, disk.kind, disk.source))
    rows.append(_age("instance_facts", facts.as_of, today, "published", facts.source))
    days = sorted(row["measured_on"] for row in measured if row["measured_on"])
    if days:
        newest = date.fromisoformat(days[-1])
        rows.append(_age("newest_measurement", newest, today, "measured", "sweep"))
    if regions:
        oldest = min(regions, key=lambda row: (row["as_of"], row["region"]))
        when = date.fromisoformat(oldest["as_of"])
        rows.append(_age("oldest_regional_price", when, today, oldest["kind"], oldest["source"]))
    return sorted(rows, key=lambda row: (row["as_of"], row["what"]))


def _age(what: str, as_of: date, today: date, kind: str, source: str) -> dict[str, Any]:
    return {
        "what": what,
        "as_of": as_of.isoformat(),
        "age_days": (today - as_of).days,
        "kind": kind,
        "source": source,
    }


def costs(spec: Spec, median: float, catalog: Catalog, today: date) -> dict[str, Any]:
    """The spec's cost in its region by market: USD per hour, month and million samples at the `median` rate
    of all its instances. Markets without a known price are left out."""
    instance, region = spec.offer.instance, spec.offer.region
    known = {
        market: spec.offer.price
        if market is spec.offer.market
        else catalog.price(instance.name, region, market, instance.cloud)
        for market in Market
    }
    rows = [
        _choice(spec, median, market, price if market is spec.offer.market else aged(price, today))
        for market, price in known.items()
        if price
    ]
    whole = next((row["usd_per_hour"] for row in rows if row["market"] == Market.ON_DEMAND), None)
    for row in rows:
        row["saving_percent"] = 100 * (1 - row["usd_per_hour"] / whole) if whole else None
    return {"hours_per_month": HOURS_PER_MONTH, "region": region, "choices": rows}


def _choice(spec: Spec, median: float, market: Market, price: Price) -> dict[str, Any]:
    count, disk, disk_usd = spec.count, spec.disk.price, spec.disk.usd_per_hour
    total = count * (price.usd_per_hour + disk_usd)
    return {
        "market": str(market),
        "asked": market is spec.offer.market,
        "usd_per_hour": total,
        "instance_usd_per_hour": count * price.usd_per_hour,
        "disk_usd_per_hour": count * disk_usd,
        "low_usd_per_hour": count * (price.low_usd_per_hour + (disk.low_usd_per_hour if disk else 0.0)),
        "high_usd_per_hour": count * (price.high_usd_per_hour + (disk.high_usd_per_hour if disk else 0.0)),
        "usd_per_month": per_month(total),
        "usd_per_million_samples": per_million(total, median),
        **{key: price_block(price)[key] for key in ("kind", "as_of", "source", "terms")},
    }


def regions(spec: Spec, catalog: Catalog) -> list[dict[str, Any]]:
    """The spec's price in each region that sells it on the market of the offer, cheapest first. Where the
    disk has no known price, the total is null and the region comes last."""
    offer, rows = spec.offer, []
    name, cloud = offer.instance.name, offer.instance.cloud
    for region in catalog.regions_of(name, cloud):
        price = catalog.price(name, region, offer.market, cloud)
        if region == offer.region:
            price = offer.price
        if price:
            rows.append(_region(spec, catalog, region, price))
    total = "total_usd_per_hour"
    return sorted(
        rows, key=lambda row: (row[total] is None, row[total] or row["usd_per_hour"], row["region"])
    )


def _region(spec: Spec, catalog: Catalog, region: str, price: Price) -> dict[str, Any]:
    count, disk = spec.count, _disk_in(spec, catalog, region)
    disk_usd = None if disk is None else count * disk.usd_per_hour
    usd = count * price.usd_per_hour
    total = None if disk_usd is None else usd + disk_usd
    return {
        "region": region,
        "chosen": region == spec.offer.region,
        "usd_per_hour": usd,
        "disk_usd_per_hour": disk_usd,
        "total_usd_per_hour": total,
        "usd_per_month": None if total is None else per_month(total),
        "kind": price.kind,
        "as_of": price.as_of.isoformat(),
        "source": price.source,
    }


def _disk_in(spec: Spec, catalog: Catalog, region: str) -> Disk | None:
    """The same disk order in another region; None where its price is unknown."""
    disk, offer = spec.disk, spec.offer
    if region == offer.region or disk.is_local or disk.price is None:
        return disk
    order = replace(disk.choice, size_gib=disk.size_gib)
    try:
        return catalog.disks_of(offer.instance.cloud).attach(offer.instance, order, region)
    except AdvisorError:
        return None


_Key = tuple[object, ...]


def price_throughput(answer: Recommendation, table: Table | None) -> list[dict[str, Any]]:
    """One row per spec, cheapest first: those that the answer names, the front of price and lower bound
    without the target and the price limit, and for each GPU the spec with the cheapest samples, unless too
    slow. Specs of `table` have the catalogue's coarse disk sizes; those of the answer fit the target."""
    request = answer.request
    # The reader weighs target, price and run limits in the chart.
    limits = ("target_throughput", "max_usd_per_hour", "max_hours", "max_run_usd")
    free = replace(request, horizon_hours=HOURS_PER_MONTH, **dict.fromkeys(limits))
    named = _named_candidates(answer)
    known = {_key(candidate) for candidate in named}
    specs = specs_of(free, table) if table else []
    others = [candidate for candidate in specs if _key(candidate) not in known]
    best: dict[str | None, Candidate] = {}
    for candidate in sorted(others, key=lambda spec: spec.spec.total_usd_per_hour / spec.prediction.lower):
        best.setdefault(candidate.spec.offer.instance.gpu_name, candidate)
    least = LEAST_OF_FRONT * answer.chosen.prediction.lower if answer.chosen else 0.0
    of_gpus = [candidate for candidate in best.values() if candidate.prediction.lower >= least]
    front = worth_taking(pareto_front((*named, *others)), answer.chosen)
    drawn = {_key(candidate): candidate for candidate in (*of_gpus, *front, *named)}
    good = (*answer.ranked, *answer.pareto, *(specs_of(request, table) if table else ()))
    answering = set(map(_key, good))
    rows = [
        Drawn(candidate_block(candidate), answers=key in answering, chosen=candidate is answer.chosen)
        for key, candidate in drawn.items()
    ]
    return drawn_rows(rows)


def _named_candidates(answer: Recommendation) -> list[Candidate]:
    """The candidates that the answer names, once each; `ranked` first, so that its batch sizes are shown."""
    calls = [two for call in answer.close_calls for two in (call.candidate, call.instead)]
    gives = [relaxation.gives for relaxation in answer.relaxations]
    named = (*answer.ranked, answer.nearest, answer.beyond_price, *calls, *answer.pareto, *gives)
    candidates: dict[_Key, Candidate] = {}
    for candidate in filter(None, named):
        candidates.setdefault(_key(candidate), candidate)
    return list(candidates.values())


def _key(candidate: Candidate) -> _Key:
    return tuple(spec_fields(candidate.spec, "cloud instance_type region market disk count").values())


def network_section(
    bare: dict[str, Any], context: Context, answer: Recommendation, table: Table | None, as_of: date
) -> dict[str, Any]:
    """The section about the chosen spec, else the nearest; `bare` where there is neither."""
    candidate = answer.chosen or answer.nearest
    if candidate is None:
        return bare
    subject, disk = Subject(context, answer.request, candidate), candidate.spec.disk.rate
    is_tried = answer.chosen and answer.request.can_be_measured and can_be_run(answer.request.network)
    known = measured_rows(answer.request.network, answer.request.task)
    rows, lines = price_throughput(answer, table), curves(subject)
    block, has = curves_block(lines), fields(subject.instance, "vcpus memory_mib")
    has["disk_read_mib_per_second"] = disk.read_mib_per_second
    for name, varied in _MEASURED_FIELD.items():
        block[name]["measured"] = nearest_slice(known, varied, has)
    explained = bare["recommendation"]["explanation"]
    if not explained and (explanation := explained_answer(answer, context)):
        explained = explanation_document(*explanation)
    return _with_places(bare, candidate.spec, candidate.prediction.median, context.catalog, known, as_of) | {
        "price_throughput": rows,
        "break_even": break_evens(rows),
        "curves": block,
        "measured": known,
        "sensitivity": sensitivity(subject, explained, block),
        "gpu_memory": gpu_memory_block(subject, lines),
        "evidence": evidence(subject, explained),
        "trial_command": verify_command(answer.request, candidate) if is_tried else None,
    }


def language_section(
    bare: dict[str, Any], answer: AnyAnswer, catalog: Catalog, as_of: date, trial: str | None
) -> dict[str, Any]:
    """The section of a language model's answer, with the command of a trial; it has no curves."""
    candidate = answer.chosen or answer.nearest
    if candidate is None:
        return bare
    document = bare["recommendation"]
    spec = document["recommendation"] or document["nearest"]
    median = spec["predicted"]["throughput"]["median"]
    return _with_places(bare, candidate.spec, median, catalog, (), as_of) | {"trial_command": trial}


def _with_places(
    bare: dict[str, Any],
    spec: Spec,
    median: float,
    catalog: Catalog,
    measured: Sequence[Mapping[str, Any]],
    as_of: date,
) -> dict[str, Any]:
    places = regions(spec, catalog)
    return bare | {
        "complete": True,
        "costs": costs(spec, median, catalog, as_of),
        "regions": places,
        "data_ages": ages(spec, measured, places, as_of),
    }


def bare_section(document: Mapping[str, Any], name: str = "", command: str = "") -> dict[str, Any]:
    """The section that a recommendation's document gives alone: for a saved one that is answered differently
    now, or where not even a nearest spec is known. `command` answers for the workload `name` alone."""
    ranked = [spec for spec in (document["recommendation"], document["nearest"]) if spec]
    answers = document["recommendation"] is not None
    rows = drawn_rows(
        [
            Drawn(spec, answers=answers, chosen=rank == 0)
            for rank, spec in enumerate([*ranked, *document["alternatives"]])
        ]
    )
    return {
        "name": name,
        "command": command,
        "trial_command": None,
        "answer": answer_facts(document),
        "recommendation": document,
        "complete": False,
        "costs": None,
        "price_throughput": rows,
        "break_even": break_evens(rows),
        "bottleneck": bottleneck_facts(document),
        "curves": None,
        "measured": [],
        "sensitivity": [],
        "gpu_memory": None,
        "regions": [],
        "evidence": [],
        "data_ages": [],
    }
