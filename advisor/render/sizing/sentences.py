"""Sentences and names of a report in its language: the question, the answer, specs, disks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from advisor.render.i18n.catalogue import Texts
from advisor.render.i18n.filters import lower_rate, percent, plain
from advisor.render.sizing.facts import ANSWERED
from advisor.units import ceil_significant, format_hours, format_mib, format_rate, format_usd

Document = Mapping[str, Any]


def asked_sentence(section: Document, t: Texts) -> str:
    """The question, with all its limits."""
    said = (_wanted(section["answer"], t), limits_sentence(section, t))
    return t.joined(filter(None, said))


def _wanted(asked: Document, t: Texts) -> str:
    known = {"task": t("task." + asked["task"]), "model": asked["model"]}
    confidence = plain(100 * asked["confidence"])
    if asked["target_throughput"] is None:
        return t("answer.asked_cheapest", confidence=confidence, **known)
    rate = format_rate(asked["target_throughput"])
    return t("answer.asked", rate=rate, confidence=confidence, **known)


def answer_sentences(section: Document, t: Texts, hours: float) -> Iterator[str]:
    """The pick (else the nearest spec), and what its rate and price stand on."""
    spec = section["answer"]["spec"]
    if spec is None:
        yield t("answer.nothing")
        return
    pick = t(
        "answer.pick" if section["answer"]["status"] == ANSWERED else "answer.none",
        spec=spec_name(spec), disk=disk_name(spec["disk"], t), region=spec["region"],
        market=t.known("market." + spec["market"], spec["market"]),
        usd=format_usd(spec["usd_per_hour"]), month=format_usd(spec["usd_per_month"]),
        hours=plain(hours), lower=lower_rate(spec["lower"]), median=format_rate(spec["median"]),
        stage=stage_name(spec["bottleneck"], t),
        million=format_usd(spec["usd_per_million_samples"]),
    )  # fmt: skip
    yield t.joined((pick, *outcome_sentences(section, t)))
    yield t(
        "answer.stands",
        provenance=t.known("provenance." + spec["provenance"], spec["provenance"]),
        risk=t(f"risk.{spec['risk']}"), number=spec["risk"],
        kind=t.known("price." + spec["price_kind"], spec["price_kind"]), date=spec["price_as_of"],
    )  # fmt: skip


def totals_sentence(totals: Document, t: Texts) -> str:
    """What all workloads cost together."""
    if totals["usd_per_hour"] is None:
        return t("totals.none", workloads=totals["workloads"])
    said = t(
        "totals.sum",
        answered=totals["answered"], workloads=totals["workloads"], instances=totals["instances"],
        usd=format_usd(totals["usd_per_hour"]), month=format_usd(totals["usd_per_month"]),
        hours=plain(totals["hours_per_month"]),
    )  # fmt: skip
    return f"{said}{t('totals.runs', runs=totals['runs'])}" if totals.get("runs") else said


def close_sentence(one: Document, t: Texts) -> str:
    """What a trial would settle."""
    chance = one["probability"]
    return t(
        "close." + one["kind"],
        name=one["instance_type"], usd=format_usd(one["usd_per_hour"]), chance=percent(chance),
        miss=percent(1 - chance), instead=one["instead_of"] or "",
        minutes=plain(one["trial"]["minutes"]), trial=format_usd(one["trial"]["usd"]),
    )  # fmt: skip


def relax_sentence(one: Document, t: Texts) -> str:
    """What to ask instead, and what that gives."""
    said = [_change(change, t) for change in one["changes"]]
    gives = one["gives"]
    return t(
        "relax.one",
        changes=", ".join(said), name=gives["instance_type"],
        usd=format_usd(gives["total_usd_per_hour"]), lower=lower_rate(gives["lower"]),
    )  # fmt: skip


def _change(change: Document, t: Texts) -> str:
    if change["to"] is None:
        return t("relax.without", option=change["option"], from_=change["from"])
    return t("relax.change", option=change["option"], to=change["to"], from_=change["from"])


def stage_name(stage: str, t: Texts) -> str:
    """'GPU', 'decoding on vCPUs'."""
    return t.known(f"stage.{stage}", stage)


def days_old(one: Document, t: Texts) -> str:
    """'1 day', '1,750 days'."""
    return t("days.one" if one["age_days"] == 1 else "days", days=f"{one['age_days']:,}")


# How each field of a request is told; a field that is left out, or as it is anyway, is not.
_FIELDS: Mapping[str, Callable[[Any], str]] = {
    "precision": str,
    "stack": str,
    "memory_format": str,
    "tf32": str,
    "input": str,
    "batch_size": plain,
    "epochs": lambda value: f"{value:,.12g}",
    "samples": lambda value: f"{value:,.12g}",
    "max_hours": plain,
    "max_first_epoch_hours": plain,
    "max_run_usd": format_usd,
    "max_usd_per_hour": format_usd,
    "max_latency_ms": plain,
    "gpus": ", ".join,
    "min_gpu_memory_mib": format_mib,
    "max_gpu_memory_mib": format_mib,
    "compute_capability": lambda value: _range(value, plain),
    "vcpus": lambda value: _range(value, plain),
    "memory_mib": lambda value: _range(value, format_mib),
    "accelerated_only": str,
    "allow_extrapolation": str,
    "max_gpus": plain,
    "max_count": plain,
    "disk": str,
    "disk_types": ", ".join,
    "vcpu_quota": lambda value: ", ".join(f"{one}={plain(most)}" for one, most in value.items()),
}
_USUAL = {
    "precision": "fp32",
    "stack": "eager",
    "memory_format": "contiguous",
    "tf32": "convolutions",
    "max_count": 1,
}


def limits_sentence(section: Document, t: Texts) -> str:
    """'Also: amp; 90 epochs; within 72 hours.'; empty where nothing more was asked."""
    request = section["recommendation"]["request"]
    limits = [
        t(f"limit.{field}", value=write(request[field]))
        for field, write in _FIELDS.items()
        if request.get(field) and request[field] != _USUAL.get(field)
    ]
    return t("limits", limits="; ".join(limits)) if limits else ""


def outcome_sentences(section: Document, t: Texts) -> Iterator[str]:
    """What the spec makes of a run, or of a limit of latency, where one was asked for."""
    answer = section["recommendation"]
    spec = answer["recommendation"] or answer["nearest"]
    if spec is None:
        return
    run, latency = spec.get("run"), spec.get("latency")
    if run:
        yield _bounded(("run.time", "run.time_unsure"), run["hours"], format_hours, t)
    if run and run["usd"]:
        yield _bounded(("run.cost", "run.cost_unsure"), run["usd"], _usd, t)
    if latency and answer["request"]["max_latency_ms"]:
        yield t(
            "latency.told",
            median=plain(ceil_significant(latency["p50_ms"])),
            p99=plain(ceil_significant(latency["p99_ms"])),
        )


def _bounded(keys: tuple[str, str], span: Document, write: Any, t: Texts) -> str:
    """The median and the upper bound, which is rounded up; none is known where it is null."""
    median = write(span["median"])
    if span["upper"] is None:
        return t(keys[1], median=median)
    return t(keys[0], median=median, upper=write(span["upper"], up=True))


def _usd(usd: float, *, up: bool = False) -> str:
    return format_usd(ceil_significant(usd) if up else usd)


def _range(limits: Document, tell: Any) -> str:
    """'8', '4..16', '32 GiB..': as it is asked for."""
    least, most = (None if one is None else tell(one) for one in (limits["least"], limits["most"]))
    return str(least) if least == most else f"{least or ''}..{most or ''}"


LOCAL_ORDER = "instance_store"


def spec_name(one: Mapping[str, Any]) -> str:
    """'g4dn.xlarge', '2 x g4dn.xlarge': of a spec, a row of one, or an end of a break-even."""
    count = one.get("count", 1)
    name = str(one["instance_type"])
    return name if count == 1 else f"{count} x {name}"


def disk_name(order: Any, t: Texts) -> str:
    """'gp3:158GiB', 'local disk'."""
    return t("disk.local") if order == LOCAL_ORDER else str(order)


def gpu_name(one: Mapping[str, Any], t: Texts) -> str:
    """'1 x T4' of a spec (with a `gpu` of its own) or of a drawn row; 'none' without."""
    gpu = one["gpu"]
    if not gpu:
        return t("gpu.none")
    known = isinstance(gpu, Mapping)
    count, name = (gpu["count"], gpu["name"]) if known else (one["gpu_count"], gpu)
    return t("gpu.of", count=count, name=name)
