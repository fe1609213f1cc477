"""Sentences of a report in its language, as plain text: what was asked, and what is answered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from advisor.render.i18n.catalogue import Texts
from advisor.render.i18n.filters import lower_rate, percent, plain
from advisor.render.sizing.facts import ANSWERED
from advisor.render.sizing.limits import limits_sentence, outcome_sentences
from advisor.render.sizing.naming import disk_name, spec_name
from advisor.units import format_rate, format_usd

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
