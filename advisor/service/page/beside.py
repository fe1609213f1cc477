"""Specs side by side: a column each, a row a fact, on one scale."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from advisor.answers.context import Context
from advisor.answers.networks import predicted
from advisor.errors import UsageError
from advisor.messages import FieldName, Message
from advisor.questions.named import Predict
from advisor.render.i18n.catalogue import Texts
from advisor.render.i18n.filters import lower_rate
from advisor.render.sizing.facts import per_million
from advisor.render.text import lower_name, upper_name
from advisor.service.page.frame import Frame
from advisor.service.page.predict import target_of
from advisor.service.page.question import question_of, workload_fields
from advisor.service.page.specs import (
    NOTHING,
    IntervalBar,
    disk_text,
    gpu_text,
    interval_bar,
    interval_text,
    spec_fields,
    stage_text,
)
from advisor.units import format_mib, format_rate, format_usd

Record = Mapping[str, Any]
# More columns nobody reads.
MOST = 4
_PLACE = ("cloud", "region", "market")


class Fact(NamedTuple):
    """A row: its name, a text for each spec, and which of them is best (None where none is)."""

    name: str
    texts: Sequence[str]
    best: int | None = None


def spec_word(spec: Record) -> str:
    """'g5.xlarge gp3:500GiB 64': instance, disk and batch size as one word of an address."""
    fields = spec_fields(spec)
    return f"{fields['instance']} {fields['disk']} {fields['batch_size']}"


def beside_view(context: Context, asked: Mapping[str, str], frame: Frame) -> dict[str, Any]:
    """Values of `beside.html` for the `spec` words of a question; `UsageError` for other than two to `MOST`
    of them, and for a word that is no spec."""
    words = list(dict.fromkeys(" ".join(word.split()) for word in asked["spec"].split(",")))
    words = [word for word in words if word]
    if not 2 <= len(words) <= MOST:
        raise UsageError(
            Message("{field} takes two to {most} specs", field=FieldName("spec"), most=MOST),
            field="spec",
            hint="divide them by commas: g5.xlarge gp3:500GiB, g6.xlarge local",
        )
    if asked.get("instance") or asked.get("gpu"):
        raise UsageError(
            Message("{field} is compared without instances and GPUs", field=FieldName("spec")),
            field="spec",
            hint="leave the others empty",
        )
    documents = [_predicted(context, word, asked, frame) for word in words]
    target, t = target_of(asked), frame.texts
    return {
        "said": t("compare.said", number=len(documents)),
        "names": [one["instance_type"] for one in documents],
        "bars": bars_of(documents, target, t),
        "facts": _facts(documents, t),
        "what_if": [
            frame.here("/predict", **{**workload_fields(frame), **_place(one), **spec_fields(one)})
            for one in documents
        ],
        "network": documents[0]["request"]["model"],
    }


def _predicted(context: Context, word: str, asked: Mapping[str, str], frame: Frame) -> dict[str, Any]:
    names = ("instance", "disk", "batch_size")
    parts = word.split()
    if len(parts) > len(names):
        raise UsageError(
            Message("no spec: {word!r}", word=word),
            field="spec",
            hint="an instance, a disk and a batch size: g5.xlarge gp3:500GiB 64",
        )
    place = {name: asked[name] for name in _PLACE if name in asked}
    words = {**workload_fields(frame), **place, **dict(zip(names, parts, strict=False))}
    try:
        return predicted(context, question_of(Predict, words)).document()
    except UsageError as error:
        # The fields of one spec are no fields of this form.
        if error.field in names:
            error.field = "spec"
        raise


def _place(document: Record) -> dict[str, str]:
    return {name: document["request"][name] for name in _PLACE}


def rates_of(document: Record) -> Record:
    """Lower bound, median and upper bound a second."""
    rates: Record = document["predicted"]["throughput"]
    return rates


def fact(name: str, documents: Sequence[Record], of: Callable[[Record], str]) -> Fact:
    """A row in which none is best."""
    return Fact(name, [of(one) for one in documents])


def ranked(
    name: str,
    documents: Sequence[Record],
    of: Callable[[Record], float | None],
    write: Callable[[float], str],
    best: Callable[[Sequence[float]], float],
) -> Fact:
    """A row whose best (`min` or `max`) is marked, unless all are alike."""
    values = [of(one) for one in documents]
    known = [value for value in values if value is not None]
    alone = best(known) if len(set(known)) > 1 else None
    texts = [NOTHING if value is None else write(value) for value in values]
    return Fact(name, texts, None if alone is None else values.index(alone))


def rate_facts(documents: Sequence[Record], t: Texts) -> list[Fact]:
    """Lower bound, median and upper bound of the throughput."""
    confidence = documents[0]["predicted"]["confidence"]
    return [
        ranked(name, documents, lambda one, of=of: rates_of(one)[of], write, max)  # type: ignore[misc]
        for name, of, write in (
            (f"{lower_name(confidence)}/s", "lower", lower_rate),
            (t("table.median"), "median", format_rate),
            (f"{upper_name(confidence)}/s", "upper", format_rate),
        )
    ]


def machine_facts(documents: Sequence[Record], t: Texts) -> list[Fact]:
    """What each machine has."""
    return [
        fact(t("table.gpu"), documents, lambda one: gpu_text(one["gpu"])),
        fact(t("field.vcpus"), documents, lambda one: f"{one['vcpus']:g}"),
        fact(t("field.memory"), documents, lambda one: format_mib(one["memory_mib"])),
        fact(t("table.disk"), documents, lambda one: disk_text(one["disk"], t)),
    ]


def provenance_fact(documents: Sequence[Record], t: Texts) -> Fact:
    """Whether each rate is measured, published or modelled."""
    name = t("table.stands")
    return fact(name, documents, lambda one: t("provenance." + one["predicted"]["provenance"]))


def bars_of(documents: Sequence[Record], target: float | None, t: Texts) -> list[tuple[IntervalBar, str]]:
    """The throughputs as bars on one scale, each with its words."""
    full = max([target or 0.0, *(rates_of(one)["upper"] for one in documents)])
    return [
        (
            interval_bar(rates_of(one), target, t("chart.target"), full),
            interval_text(one["predicted"], target, t),
        )
        for one in documents
    ]


def _facts(documents: Sequence[Record], t: Texts) -> list[Fact]:
    return [
        ranked(t("table.per_hour"), documents, usd_per_hour, format_usd, min),
        ranked(t("table.per_million_samples"), documents, _usd_per_million, format_usd, min),
        *rate_facts(documents, t),
        fact(t("table.bound"), documents, lambda one: stage_text(one["bottleneck"], one, t)),
        *machine_facts(documents, t),
        fact(t("detail.batch"), documents, lambda one: str(one["batch_size"])),
        provenance_fact(documents, t),
    ]


def usd_per_hour(document: Record) -> float | None:
    """With its disk; None where it has no price."""
    return float(document["price"]["total_usd_per_hour"]) if document["price"] else None


def _usd_per_million(document: Record) -> float | None:
    usd = usd_per_hour(document)
    return None if usd is None else per_million(usd, rates_of(document)["median"])
