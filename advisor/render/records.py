"""The JSON blocks that documents share: a price, a disk, an instance, a prediction, a run, ...

One function writes each concept, whatever document it is in. Values are JSON-ready and unrounded. Sentences
stay `Message`s until `render.document.plain` or a report renders them. Null means unknown or not applicable,
and is never written as 0."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any

from advisor.domain import (
    BatchPoint,
    Candidate,
    DatasetProfile,
    Disk,
    InstanceType,
    Latency,
    OnGpu,
    OtherSetting,
    Prediction,
    Price,
    Provenance,
    Rejected,
    Relaxation,
    RunTime,
    Span,
    Spec,
    Stage,
    Withheld,
    Workload,
)
from advisor.domain.results import UNMEASURED_METHOD, is_measured
from advisor.messages import Message, code_of

if TYPE_CHECKING:
    from advisor.domain.decision import AnyCandidate, Explanation
    from advisor.domain.language import FineTuningCandidate, GenerationCandidate
    from advisor.domain.live import LiveCheck, PriceAnswer  # few answers need it

    # A prediction, or a candidate that has one.
    Claim = Prediction | GenerationCandidate | FineTuningCandidate

BOUNDS = ("lower", "median", "upper")
# The number of rejected types that a document names by default.
NEAREST_REJECTED = 10
# Evidence of at least this risk is weak.
WEAK = 3
RISKS = ("very low", "low", "medium", "high", "very high")
# For each risk but the highest, the least ratio of lower bound to median.
WIDE = 0.6
_RISK_SHARES = (0.95, 0.85, WIDE, 0.4)
# The risk if bounds held in less than this percentage of withheld cases (90 are promised).
MISSES = 75.0
_RISK_HELD = ((4, 60.0), (WEAK, MISSES), (2, 85.0))


def fields(record: object, names: str) -> dict[str, Any]:
    """Return some fields of a record, unchanged."""
    return {name: getattr(record, name) for name in names.split()}


def spec_fields(spec: Spec, names: str) -> dict[str, Any]:
    """Return the named facts of a spec: its place, type, number of instances, disk and price."""
    offer = spec.offer
    facts = {
        "cloud": offer.instance.cloud,
        "region": offer.region,
        "market": str(offer.market),
        "instance_type": offer.instance.name,
        "gpu": offer.instance.gpu_name,
        "count": spec.count,
        "disk": str(spec.disk.choice),
        "total_usd_per_hour": spec.total_usd_per_hour,
    }
    return {name: facts[name] for name in names.split()}


def bounds(interval: Any) -> dict[str, float]:
    """Return lower bound, median and upper bound of a `Prediction` or a `Span`."""
    return {name: getattr(interval, name) for name in BOUNDS}


def finite_bounds(span: Span | None) -> dict[str, float | None] | None:
    """Return the bounds, with null for an infinite one, which means unknown; null without a span."""
    if span is None:
        return None
    return {name: value if isfinite(value) else None for name, value in bounds(span).items()}


def notes_text(notes: Iterable[Any]) -> str:
    """Join the notes on a type that the user must know."""
    return "; ".join(map(str, notes))


def rate_unit(dataset: DatasetProfile) -> str:
    """Return the unit of a throughput: 'images/s', 'sequences/s'."""
    return f"{dataset.sample}s/s"


def instance_block(instance: InstanceType) -> dict[str, Any]:
    """Return the facts of an instance type."""
    gpu = None
    if instance.gpu_name is not None:
        gpu = {"name": instance.gpu_name, "count": instance.gpu_count, "memory_mib": instance.gpu_memory_mib}
    return {
        "instance_type": instance.name,
        "gpu": gpu,
        **fields(instance, "vcpus physical_cores memory_mib"),
        "cpu_architecture": instance.cpu.architecture,
        "cpu_speed_known": bool(instance.cpu.single_thread_score),
    }


def disk_block(disk: Disk) -> dict[str, Any]:
    """Return a disk with the rate that it sustains on its instance, and its burst if it has one."""
    burst = disk.burst
    return {
        "type": disk.rate.type,
        "order": str(disk.choice),
        "size_gib": disk.size_gib,
        **fields(disk.rate, "read_mib_per_second read_iops"),
        "binding_limit": disk.binding_limit,
        "price_as_of": disk.price and disk.price.as_of.isoformat(),
        "price_kind": disk.price and disk.price.kind,
        "burst": burst
        and {
            **fields(burst, "read_mib_per_second read_iops"),
            "seconds": burst.seconds if isfinite(burst.seconds) else None,
            "lent_by": list(burst.causes),
        },
    }


def price_block(price: Price, currency: str = "USD") -> dict[str, Any]:
    """Return a price with date and source; in `currency` if its dollar exchange rate is unknown."""
    hourly = fields(price, "usd_per_hour low_usd_per_hour high_usd_per_hour")
    if currency != "USD":
        hourly = {"usd_per_hour": None, "currency": currency, "per_hour": price.usd_per_hour}
    return hourly | {"kind": price.kind, "as_of": price.as_of.isoformat()} | fields(price, "source terms")


def prediction_block(workload: Workload, prediction: Prediction) -> dict[str, Any]:
    """Return throughput with its interval, the bottleneck, and the utilization of each stage."""
    return {
        **fields(workload, "batch_size precision memory_format"),
        "predicted": {
            "throughput": bounds(prediction),
            "unit": rate_unit(workload.dataset),
            **fields(prediction, "confidence provenance gpus_used gpu_efficiency"),
            "withheld": withheld_block(prediction.withheld),
        },
        "bottleneck": str(prediction.bottleneck),
        "utilization": {str(stage): share for stage, share in prediction.utilization.items()},
        "stage_rates": {str(stage): rate for stage, rate in prediction.stage_rates.items()},
        "risk": risk(prediction),
        "extrapolation": list(prediction.extrapolation),
    }


# The fields of a prediction that apply to a GPU by itself.
_OF_GPUS = ("batch_size", "precision", "memory_format", "predicted", "extrapolation")


def gpu_prediction_block(cell: OnGpu) -> dict[str, Any]:
    """Return the part of a prediction about a GPU by itself; rates are null if no batch fits."""
    fits: dict[str, Any] = {"fits": cell.workload is not None, "largest_batch": cell.largest_batch}
    if cell.workload is None or cell.prediction is None:
        return {**fits, **dict.fromkeys(_OF_GPUS), "extrapolation": []}
    whole = prediction_block(cell.workload, cell.prediction)
    return fits | {name: whole[name] for name in _OF_GPUS}


def too_large_text(size: int | None) -> str:
    """'batch 512 does not surely fit', or of a question without a batch size 'no batch fits'."""
    return f"batch {size:,} does not surely fit" if size else "no batch fits"


def largest_text(block: Mapping[str, Any]) -> str:
    """' (largest: 208)': the batch that surely fits a GPU, where the wanted one does not."""
    return f" (largest: {block['largest_batch']:,})" if block.get("largest_batch") else ""


def risk(claim: Claim) -> int:
    """Return a claim's risk, from 0 (very low) to 4 (very high): the highest by width of the interval, by
    facts outside what was measured, and by how often such bounds held on withheld data. One fact outside
    gives 2; three, or a method that nobody measured, give 3. Bounds that held in less than 85, 75 or 60 %
    give 2, 3 or 4, and an untested model gives 3. An uncalibrated claim has the highest risk."""
    if not claim.calibrated:
        return len(RISKS) - 1
    outside, held = len(claim.extrapolation), claim.withheld.held_percent if claim.withheld else 100.0
    by_width = next((i for i, least in enumerate(_RISK_SHARES) if claim.sure_share >= least), 4)
    calculated = UNMEASURED_METHOD in map(code_of, claim.extrapolation)
    by_facts = 3 if outside >= 3 or calculated else 2 if outside else 0
    by_held = 3 if is_untested(claim) else next((i for i, least in _RISK_HELD if held < least), 0)
    return max(by_width, by_facts, by_held)


def hedge_message(claim: Claim) -> Message | None:
    """Return what the chance is based on if the evidence is weak ('by weak evidence'), else None."""
    if not hasattr(claim, "withheld"):  # some candidates have no tests
        return None
    if is_untested(claim):
        return Message("by a model never checked on such a case")
    if risk(claim) >= WEAK:
        return Message("by weak evidence")
    return None if is_measured(claim) else Message("by a model never checked on this GPU")


def is_untested(claim: Claim) -> bool:
    """Return whether a rate comes from a model that was never tested on similar withheld data."""
    modelled = getattr(claim, "provenance", Provenance.MODELLED) == Provenance.MODELLED
    return modelled and claim.withheld is None


def withheld_block(test: Withheld | None) -> dict[str, Any] | None:
    """Return the test on withheld data that is most like a prediction."""
    return None if test is None else fields(test, "what median_percent held_percent rows")


def latency_block(latency: Latency | None) -> dict[str, Any] | None:
    """Return a batch's latency in milliseconds; null except for inference. p99 is null without a bound."""
    if latency is None:
        return None
    bounded = isfinite(latency.p99_seconds)
    return {"p50_ms": 1000 * latency.p50_seconds, "p99_ms": 1000 * latency.p99_seconds if bounded else None}


def batch_point_block(point: BatchPoint) -> dict[str, Any]:
    """Return the rate of an instance at one batch size."""
    return {
        "batch_size": point.batch_size,
        "throughput": bounds(point.prediction),
        "bottleneck": str(point.prediction.bottleneck),
        "latency": latency_block(point.latency),
    }


def by_price(spec: Spec, usd: float) -> dict[str, float]:
    """Return the range of a cost at the median rate that follows from the price's range in 9 of 10 cases."""
    total = spec.total_usd_per_hour or 1.0  # a free spec costs 0 at any rate
    return {"low": usd * spec.low_usd_per_hour / total, "high": usd * spec.high_usd_per_hour / total}


def run_block(run: RunTime | None, usd: Span | None, spec: Spec | None = None) -> dict[str, Any] | None:
    """Return hours and dollars of a run; null without a run, and `usd` is null without a price."""
    if run is None:
        return None
    return {
        "samples": run.samples,
        "hours": finite_bounds(run.hours),
        "usd": finite_bounds(usd),
        "usd_by_price": by_price(spec, usd.median) if usd and spec else None,
        "first_epoch_hours": finite_bounds(run.first_epoch),
    }


def spec_block(spec: Spec) -> dict[str, Any]:
    """Return an offer with its disk and price."""
    return {
        **spec_fields(spec, "cloud region market count"),
        **instance_block(spec.offer.instance),
        "disk": disk_block(spec.disk),
        "price": {
            **price_block(spec.offer.price),
            "disk_usd_per_hour": spec.disk.usd_per_hour,
            **fields(spec, "usd_per_hour_each total_usd_per_hour"),
            "total_low_usd_per_hour": spec.low_usd_per_hour,
            "total_high_usd_per_hour": spec.high_usd_per_hour,
        },
    }


def candidate_block(candidate: Candidate) -> dict[str, Any]:
    """Return a spec with its price, prediction and cost."""
    spec, prediction = candidate.spec, candidate.prediction
    predicted = prediction_block(candidate.workload, prediction)
    # The network between instances that train together.
    network = candidate.node_network if spec.count > 1 else None
    predicted["predicted"] |= {
        "throughput_each": bounds(prediction.times(1 / spec.count)),
        "nodes": network
        and {
            "count": spec.count,
            "efficiency": prediction.node_efficiency,
            **fields(network, "gbit_per_second source"),
        },
    }
    return {
        **spec_block(spec),
        "probability": candidate.probability,
        **predicted,
        "latency": latency_block(candidate.latency),
        "cost": {
            **fields(candidate, "usd_per_million_samples"),
            "by_price": by_price(spec, candidate.usd_per_million_samples),
        },
        "run": run_block(candidate.run, candidate.usd_per_run, spec),
        "first_epoch_hours": finite_bounds(candidate.first_epoch),
        "note": notes_text(candidate.notes),
    }


def pareto_block(candidate: Candidate) -> dict[str, Any]:
    """Return a spec on the front of price and rate."""
    return {
        **spec_fields(candidate.spec, "instance_type count cloud region gpu disk"),
        "batch_size": candidate.workload.batch_size,
        "total_usd_per_hour": candidate.spec.total_usd_per_hour,
        "lower": candidate.prediction.lower,
        **fields(candidate, "usd_per_million_samples"),
    }


def rejected_block(rejected: Rejected) -> dict[str, Any]:
    """Return a rejected type and the reason; if it cannot be ordered, also since when."""
    detail = rejected.detail
    closed: dict[str, Any] = {"count": rejected.count} if rejected.count > 1 else {}
    if rejected.reason == "not_offered" and isinstance(detail, Message):
        day = detail.parameters.get("as_of")
        closed["not_orderable"] = {"status": detail.code} | ({"as_of": day} if day else {})
    return closed | fields(rejected, "cloud instance_type reason detail usd_per_hour disk")


def relaxation_block(relaxation: Relaxation, gives: Mapping[str, Any]) -> dict[str, Any]:
    """Return changes that together suffice, and what they give, whose whole block is `gives`."""
    price, run = gives["price"], gives.get("run") or {}
    medians = {name: run[name]["median"] for name in ("hours", "usd") if run}
    of_run = run and medians | {"most_usd": run["usd"]["upper"]}
    return {
        "changes": [
            {**fields(change, "constraint option"), "from": change.before, "to": change.after}
            for change in relaxation.changes
        ],
        "gives": {
            **{name: gives[name] for name in ("cloud", "instance_type", "count", "region")},
            "total_usd_per_hour": price["total_usd_per_hour"],
            "price_kind": price["kind"],
            "price_as_of": price["as_of"],
            "probability": gives["probability"],
            "lower": gives["predicted"]["throughput"]["lower"],
            **({"run": of_run} if of_run else {}),
        },
    }


def brief_block(candidate: AnyCandidate) -> dict[str, Any]:
    """Return a spec that another is compared with: what to order, its price and its chance."""
    names = "cloud instance_type count region market disk total_usd_per_hour"
    return spec_fields(candidate.spec, names) | {"probability": candidate.probability}


def other_setting_blocks(settings: Iterable[OtherSetting]) -> list[dict[str, Any]]:
    """Return the effects of other settings; `gain` is the factor by which the GPU alone is faster."""
    return [
        {
            "change": setting.name,
            "option": setting.option,
            "gain": setting.gpu_gain.median,
            **fields(setting.gpu_gain, "lower upper"),
            "measured": setting.measured,
            "throughput_gain": setting.gain,
            "throughput": bounds(setting.prediction),
            "bottleneck": str(setting.prediction.bottleneck),
            "instead": brief_block(setting.instead) if setting.instead else None,
        }
        for setting in settings
    ]


def price_answer_block(answer: PriceAnswer) -> dict[str, Any]:
    """Return a cloud's reply about a price: the earlier price, the new one, or why there is none."""
    return {
        **fields(answer, "instance_type region market"),
        "before": price_block(answer.before) if answer.before else None,
        "told": price_block(answer.price) if answer.price else None,
        "changed": answer.changed,
        "refused_usd_per_hour": answer.not_believed,
        "why": answer.why,
    }


def live_block(check: LiveCheck | None) -> dict[str, Any] | None:
    """Return every type whose price was fetched live, in order; null if nothing was to be fetched."""
    if check is None:
        return None
    return {
        "as_of": check.as_of.isoformat(),
        "checked": [
            {
                **price_answer_block(checked.answer),
                **fields(checked, "offered quota_code vcpu_quota verified"),
            }
            for checked in check.checked
        ],
        "warnings": list(check.warnings),
    }


def explanation_document(instance_type: str, explanation: Explanation) -> dict[str, Any]:
    """Return an explanation; `next_stage` is null if there is only one stage."""
    following = None
    if explanation.next_stage is not None and explanation.next_rate is not None:
        times = explanation.next_rate / explanation.bottleneck_rate
        following = {**_stage_block(explanation.next_stage, explanation.next_rate), "times": times}
    return {
        "instance_type": instance_type,
        "bottleneck": _stage_block(explanation.bottleneck, explanation.bottleneck_rate),
        "next_stage": following,
        "gains": [
            fields(gain, "resource step samples_per_second percent bottleneck") for gain in explanation.gains
        ],
        "measured_range": [
            fields(distance, "subject stage matters inside times detail")
            for distance in explanation.distances
        ],
    }


def _stage_block(stage: Stage, rate: float) -> dict[str, Any]:
    return {"stage": str(stage), "samples_per_second": rate}


def same_paths(names: str, below: str = "") -> dict[str, str]:
    """Map each name to its path, for columns whose name is also the field's name."""
    return {name: f"{below}{name}" for name in names.split()}


def spread_paths(paths: Mapping[str, str]) -> dict[str, str]:
    """Map a column for each bound of the intervals to its path."""
    return {f"{name}_{bound}": f"{path}.{bound}" for name, path in paths.items() for bound in BOUNDS}
