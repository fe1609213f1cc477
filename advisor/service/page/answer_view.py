"""A recommendation's document -> what the page of an answer shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from advisor.render.i18n.catalogue import Texts
from advisor.render.i18n.filters import lower_rate, per_month, percent, plain
from advisor.service.page.exporting import export_links
from advisor.service.page.frame import Frame
from advisor.service.page.points import chart_points
from advisor.service.page.specs import LOCAL, spec_row, spec_view
from advisor.service.page.ways import ways_out
from advisor.units import format_rate, format_usd

# Instances that are compared side by side: more columns nobody reads.
COMPARED = 4


def answer_view(document: Mapping[str, Any], frame: Frame) -> dict[str, Any]:
    """Values of `answer.html` for one answer, or for the lack of one."""
    t, request = frame.words, document["request"]
    target, pick = request["target_throughput"], document["recommendation"]
    shared = {
        "problem": None,
        "target": target,
        "assumptions": document["assumptions"],
        "warnings": document["warnings"],
        "rejected": _rejected(document, frame),
        "model": document["performance_model"],
    }
    if pick is None:
        return shared | _without_offer(document, frame)
    view = spec_view(pick, target, t)
    return shared | {
        "pick": view,
        "headline": _headline(request, t),
        "said": _summary(view, t),
        "close": _close_call(document["close_calls"], request, t),
        "exports": export_links(frame),
        "points": chart_points(document, t),
        "alternatives": [_alternative(one, frame) for one in document["alternatives"]],
        "compare_href": _compare_href(document, frame),
    }


def _headline(request: Mapping[str, Any], t: Texts) -> str:
    task = t("task." + request["task"])
    if request["target_throughput"] is None:
        return t("answer.cheapest", model=request["model"], task=task)
    rate = format_rate(request["target_throughput"])
    return t("answer.reaches", model=request["model"], task=task, rate=rate)


def _summary(view: Mapping[str, Any], t: Texts) -> str:
    """What a screen reader is told when the answer changes."""
    return t(
        "answer.said",
        name=view["name"],
        usd=format_usd(view["usd_per_hour"]),
        lower=lower_rate(view["lower"]),
    )


def _without_offer(document: Mapping[str, Any], frame: Frame) -> dict[str, Any]:
    nearest, t = document["nearest"], frame.words
    target = document["request"]["target_throughput"]
    return {
        "pick": None,
        "nearest": spec_view(nearest, target, t) if nearest else None,
        "ways": ways_out(document, frame),
        "said": t("none.title"),
    }


def _close_call(
    calls: Sequence[Mapping[str, Any]], request: Mapping[str, Any], t: Texts
) -> dict[str, str] | None:
    """The close call that matters most, and the trial that settles it."""
    if not calls:
        return None
    first, trial = calls[0], calls[0]["trial"]
    saved = first["saves_usd_per_hour"]
    text = t(
        "close." + first["kind"],
        name=first["instance_type"],
        usd=format_usd(first["usd_per_hour"]),
        rate=format_rate(request["target_throughput"] or 0.0),
        chance=percent(first["probability"]),
        miss=percent(1 - first["probability"]),
        instead=first["instead_of"] or "",
        month=per_month(saved or 0.0),
        trial=format_usd(trial["usd"]),
        minutes=plain(trial["minutes"]),
    )
    return {"text": text, "command": trial["command"]}


def _rejected(document: Mapping[str, Any], frame: Frame) -> dict[str, Any] | None:
    """The nearest rejected types, or all of them, in the document's order."""
    t, pick = frame.words, document["recommendation"]
    shown, number = document["rejected"], document["catalog"]["offers_rejected"]
    if not shown:
        return None
    return {
        "title": t("why.title" if pick else "why.none_title", number=f"{number:,}"),
        "of": document["catalog"]["offers_considered"],
        "counts": list(document["catalog"]["rejected_by_reason"].items()),
        "shown": shown,
        "number": number,
        "more_href": frame.same("/", rejected="all") if len(shown) < number else None,
    }


def _alternative(one: Mapping[str, Any], frame: Frame) -> dict[str, Any]:
    return spec_row(one, frame.words) | {"what_if": what_if_href(one, frame)}


def what_if_href(one: Mapping[str, Any], frame: Frame) -> str:
    """The page that changes this spec's vCPUs, RAM and disk."""
    return frame.here("/predict", **workload_words(frame), **spec_words(one))


def workload_words(frame: Frame) -> dict[str, str]:
    """The words of a question that say what runs, not where."""
    names = (
        "task", "model", "precision", "input", "stack", "memory_format", "tf32", "dataset",
        "confidence", "target_throughput",
    )  # fmt: skip
    asked = dict(frame.asked)
    return {name: asked[name] for name in names if name in asked}


def spec_words(one: Mapping[str, Any]) -> dict[str, object]:
    """The words of `predict` that mean just this spec."""
    disk = "local" if one["disk"]["type"] == LOCAL else one["disk"]["order"]
    place = {name: one[name] for name in ("cloud", "region", "market") if name in one}
    return {
        "instance": one["instance_type"],
        **place,
        "disk": disk,
        "batch_size": one["batch_size"],
    }


def _compare_href(document: Mapping[str, Any], frame: Frame) -> str | None:
    """The chosen one beside the first alternatives, where they are of one place."""
    specs = [document["recommendation"], *document["alternatives"]]
    first = specs[0]
    alike = [
        one for one in specs if (one["cloud"], one["region"]) == (first["cloud"], first["region"])
    ]
    names = list(dict.fromkeys(one["instance_type"] for one in alike))[:COMPARED]
    if len(names) < 2:
        return None
    place = {name: first[name] for name in ("cloud", "region", "market")}
    return frame.here("/compare", **workload_words(frame), **place, instance=",".join(names))


def _place_of(one: Mapping[str, Any]) -> tuple[object, ...]:
    return one["cloud"], one["region"], one["market"]
