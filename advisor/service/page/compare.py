"""`/compare` and `/language/compare`: instances, GPUs or whole specs side by side, on one scale."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from fastapi import APIRouter

from advisor.answers import ask
from advisor.answers.context import Context
from advisor.errors import UsageError
from advisor.messages import FieldName, Message
from advisor.questions.language import CompareGeneration
from advisor.questions.network import Compare, Predict
from advisor.render.blocks import Column, Look, Table
from advisor.render.facts import per_million
from advisor.render.i18n.catalogue import Texts
from advisor.render.i18n.filters import lower_rate
from advisor.render.phrases import seconds_text
from advisor.render.sentences import columns_of, rate_columns
from advisor.render.text import lower_name, upper_name
from advisor.service.page.frame import Frame
from advisor.service.page.question import (
    LANGUAGE_USUAL,
    QuestionPage,
    language_choices,
    question_of,
    target_of,
    workload_fields,
)
from advisor.service.page.specs import (
    NOTHING,
    IntervalBar,
    disk_order,
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
# A bar that is longer than all others ends here; the same as in `bars`.
_SPARE = 1.0


class Fact(NamedTuple):
    """A row of specs: its name, a text for each of them, and which is best (None where none is)."""

    name: str
    texts: Sequence[str]
    best: int | None = None


def _instances_view(document: Record, target: float | None, frame: Frame) -> dict[str, Any]:
    """Values of `comparison.html`: one group a network, its bars on one scale."""
    t, rows = frame.texts, document["rows"]
    networks = list(dict.fromkeys(row["network"] for row in rows))
    models = [request["model"] for request in document["requests"]]
    sentences = dict(zip(models, document["asked"], strict=True))
    return {
        "problem": None,
        "said": t("compare.said", number=len(rows)),
        "specs": None,
        "baseline": document["baseline"],
        "groups": [_group(name, rows, target, t) | {"asked": sentences[name]} for name in networks],
    }


def _group(network: str, rows: Sequence[Record], target: float | None, t: Texts) -> dict[str, Any]:
    mine = [row for row in rows if row["network"] == network]
    full = _full([row for row in mine if row["predicted"]], target)
    return {
        "network": network,
        "baseline": mine[0].get("relative_to"),
        "rows": [_row(row, full, target, t) | _own_warnings(row, mine) for row in mine],
        "table": Table(_columns(mine, t), mine),
        "notes": list(dict.fromkeys(note for row in mine for note in row["extrapolation"])),
    }


def _own_warnings(row: Record, rows: Sequence[Record]) -> dict[str, Any]:
    """`warnings`: what is to be minded of this instance and not of every one."""
    warnings = row.get("warnings", ())
    return {"warnings": [text for text in warnings if any(text not in other["warnings"] for other in rows)]}


def _columns(rows: Sequence[Record], t: Texts) -> list[Column]:
    """Columns of instances or GPUs; a dash where no batch fits."""
    confidences = [row["predicted"]["confidence"] for row in rows if row["predicted"]]
    of_gpus = not any("instance_type" in row for row in rows)

    def bound(row: Record) -> str | None:
        return stage_text(row["bottleneck"], row, t) if row["predicted"] else None

    def provenance(row: Record) -> str | None:
        return t("provenance." + row["predicted"]["provenance"]) if row["predicted"] else None

    columns = [
        Column(t("table.gpu" if of_gpus else "table.instance"), _name),
        Column(t("table.batch"), "batch_size", Look.WHOLE),
        *rate_columns(t, confidences[0] if confidences else None, "predicted.throughput."),
    ]
    if not of_gpus:
        columns += columns_of(
            t,
            ("per_hour", "total_usd_per_hour", Look.USD),
            ("per_million_samples", "usd_per_million_samples", Look.USD),
            ("bound", bound),
        )
    columns.append(Column(t("table.stands"), provenance))
    return [column._replace(unknown=NOTHING) for column in columns]


def _name(row: Record) -> str:
    return str(row.get("instance_type") or row["gpu"]["name"])


def _row(row: Record, full: float, target: float | None, t: Texts) -> dict[str, Any]:
    """The bar of an instance or a GPU."""
    view = {"name": _name(row), "relative": row["relative"], "fits": row["predicted"] is not None}
    if row["predicted"] is None:
        return view
    bar, label = _bar(row, full, target, t)
    return view | {"bar": bar, "bar_label": label, "has": _has(row, t)}


def _has(row: Record, t: Texts) -> str:
    """What an instance has, or the memory of a GPU alone."""
    if "vcpus" not in row:
        return format_mib(row["gpu"]["memory_mib"])
    machine = t("answer.vcpus", vcpus=f"{row['vcpus']:g}", cores=f"{row['physical_cores']:g}")
    return f"{gpu_text(row['gpu'])} · {machine} · {disk_order(row['disk'], t)}"


def _specs_view(
    documents: Sequence[Record],
    model: str,
    facts: Sequence[Fact],
    target: float | None,
    t: Texts,
    what_if: Sequence[str] = (),
) -> dict[str, Any]:
    """Values of `comparison.html`: a column a spec, a row a fact."""
    full = _full(documents, target)
    specs = {
        "names": [document["instance_type"] for document in documents],
        "bars": [_bar(document, full, target, t) for document in documents],
        "facts": facts,
        "what_if": what_if,
        "network": model,
    }
    return {"problem": None, "specs": specs, "said": t("compare.said", number=len(documents))}


def _full(documents: Sequence[Record], target: float | None) -> float:
    """The rate at the end of the longest bar."""
    return max([target or 0.0, *(_rates(document)["upper"] for document in documents)]) or _SPARE


def _bar(document: Record, full: float, target: float | None, t: Texts) -> tuple[IntervalBar, str]:
    """The throughput as a bar, and in words."""
    bar = interval_bar(_rates(document), target, t("chart.target"), full)
    return bar, interval_text(document["predicted"], target, t)


def _rates(document: Record) -> Record:
    rates: Record = document["predicted"]["throughput"]
    return rates


def _fact(name: str, documents: Sequence[Record], text_of: Callable[[Record], str]) -> Fact:
    return Fact(name, [text_of(document) for document in documents])


def _ranked(
    name: str,
    documents: Sequence[Record],
    value_of: Callable[[Record], float | None],
    write: Callable[[float], str],
    best: Callable[[Sequence[float]], float] = min,
) -> Fact:
    """A row whose best is marked, unless all are alike."""
    values = [value_of(document) for document in documents]
    known = [value for value in values if value is not None]
    alone = best(known) if len(set(known)) > 1 else None
    texts = [NOTHING if value is None else write(value) for value in values]
    return Fact(name, texts, None if alone is None else values.index(alone))


def _facts(
    documents: Sequence[Record],
    sample: str,
    usd_per_million: Callable[[Record], float | None],
    facts_of_task: Sequence[Fact],
    t: Texts,
) -> list[Fact]:
    """Prices, rates, what one kind of task has, and the machines."""
    confidence = documents[0]["predicted"]["confidence"]
    rates = (
        (f"{lower_name(confidence)}/s", "lower", lower_rate),
        (t("table.median"), "median", format_rate),
        (f"{upper_name(confidence)}/s", "upper", format_rate),
    )
    return [
        _ranked(t("table.per_hour"), documents, _usd_per_hour, format_usd),
        _ranked(t(f"table.per_million_{sample}"), documents, usd_per_million, format_usd),
        *(_ranked(name, documents, partial(_rate, bound), write, max) for name, bound, write in rates),
        *facts_of_task,
        _fact(t("table.gpu"), documents, lambda document: gpu_text(document["gpu"])),
        _fact(t("field.vcpus"), documents, lambda document: f"{document['vcpus']:g}"),
        _fact(t("field.memory"), documents, lambda document: format_mib(document["memory_mib"])),
        _fact(t("table.disk"), documents, lambda document: disk_text(document["disk"], t)),
        _fact(
            t("table.stands"),
            documents,
            lambda document: t("provenance." + document["predicted"]["provenance"]),
        ),
    ]


def _rate(bound: str, document: Record) -> float:
    return float(_rates(document)[bound])


def _usd_per_hour(document: Record) -> float | None:
    """With its disk; None where it has no price."""
    return float(document["price"]["total_usd_per_hour"]) if document["price"] else None


def _usd_per_million_samples(document: Record) -> float | None:
    usd = _usd_per_hour(document)
    return None if usd is None else per_million(usd, _rates(document)["median"])


def _usd_per_million_tokens(row: Record) -> float | None:
    """Output tokens, at the median; None where the instance has no price."""
    return float(row["cost"]["usd_per_million_output_tokens"]["median"]) if row["cost"] else None


def _networks_specs(context: Context, words: Mapping[str, str], frame: Frame) -> dict[str, Any]:
    """The `spec` words of a question; `UsageError` for other than two to `MOST` of them, and for a word that
    is no spec."""
    spec_words = list(dict.fromkeys(" ".join(word.split()) for word in words["spec"].split(",")))
    spec_words = [word for word in spec_words if word]
    if not 2 <= len(spec_words) <= MOST:
        raise UsageError(
            Message("{field} takes two to {most} specs", field=FieldName("spec"), most=MOST),
            field="spec",
            hint="divide them by commas: g5.xlarge gp3:500GiB, g6.xlarge local",
        )
    if words.get("instance") or words.get("gpu"):
        raise UsageError(
            Message("{field} is compared without instances and GPUs", field=FieldName("spec")),
            field="spec",
            hint="leave the others empty",
        )
    specs, t = [_predicted(context, word, words, frame) for word in spec_words], frame.texts
    of_networks = [
        _fact(t("table.bound"), specs, lambda spec: stage_text(spec["bottleneck"], spec, t)),
        _fact(t("detail.batch"), specs, lambda spec: str(spec["batch_size"])),
    ]
    facts = _facts(specs, "samples", _usd_per_million_samples, of_networks, t)
    what_if = [
        frame.here(
            "/predict",
            **{
                **workload_fields(frame),
                **{name: spec["request"][name] for name in _PLACE},
                **spec_fields(spec),
            },
        )
        for spec in specs
    ]
    return _specs_view(specs, specs[0]["request"]["model"], facts, target_of(words), t, what_if)


def _predicted(context: Context, word: str, words: Mapping[str, str], frame: Frame) -> dict[str, Any]:
    names = ("instance", "disk", "batch_size")
    parts = word.split()
    if len(parts) > len(names):
        raise UsageError(
            Message("no spec: {word!r}", word=word),
            field="spec",
            hint="an instance, a disk and a batch size: g5.xlarge gp3:500GiB 64",
        )
    location = {name: words[name] for name in _PLACE if name in words}
    words = {**workload_fields(frame), **location, **dict(zip(names, parts, strict=False))}
    try:
        return ask.predict(context, question_of(Predict, words)).document()
    except UsageError as error:
        # The fields of one spec are no fields of this form.
        if error.field in names:
            error.field = "spec"
        raise


def _networks(context: Context, words: Mapping[str, str], frame: Frame) -> dict[str, Any]:
    if words.get("spec"):
        return _networks_specs(context, words, frame)
    document = ask.compare(context, question_of(Compare, words)).message_document()
    return _instances_view(document, target_of(words), frame)


def _language(context: Context, words: Mapping[str, str], frame: Frame) -> dict[str, Any]:
    question = question_of(CompareGeneration, {**words, "task": LANGUAGE_USUAL["task"]})
    document, t = ask.compare(context, question).message_document(), frame.texts
    rows, request = document["rows"], document["request"]
    times = (("lm.ttft", "ttft_seconds"), ("lm.tpot", "tpot_seconds"), ("lm.e2e", "e2e_seconds"))
    of_serving = [
        _fact(t("compare.baseline", name=document["baseline"]), rows, lambda row: f"{row['relative']:.2f}"),
        *(_ranked(t(key), rows, partial(_median, name), seconds_text) for key, name in times),
        _fact(t("lm.bound"), rows, lambda row: t(f"bind.{row['bottleneck']}")),
        _fact(t("lm.runs"), rows, _replicas),
        _fact(t("lm.formats"), rows, _formats),
    ]
    facts = _facts(rows, "output_tokens", _usd_per_million_tokens, of_serving, t)
    return _specs_view(rows, request["model"], facts, request["target_output_tokens_per_second"], t)


def _median(name: str, row: Record) -> float:
    return float(row["serving"]["rates"][name]["median"])


def _replicas(row: Record) -> str:
    placed = row["serving"]["placement"]
    return f"{placed['replicas']} x TP{placed['tensor_parallel']}"


def _formats(row: Record) -> str:
    return f"{row['serving']['precision']}, {row['serving']['kv_precision']}"


NETWORKS = QuestionPage(
    "compare.html",
    "comparison.html",
    _networks,
    {"task": "training", "model": "resnet50", "instance": "g4dn.xlarge,g5.xlarge,g6.xlarge"},
    frozenset(("instance", "gpu", "spec")),
    ("instance", "spec"),
)
LANGUAGE = QuestionPage(
    "language_compare.html",
    "comparison.html",
    _language,
    {"model": "meta-llama/Llama-3.1-8B", "users": "8", "instance": "g6.xlarge,g5.xlarge"},
    frozenset(("instance",)),
    ("instance",),
    usual=LANGUAGE_USUAL,
    choices=language_choices,
)
router = APIRouter(include_in_schema=False)
router.get("/compare")(NETWORKS.answer)
router.get("/language/compare")(LANGUAGE.answer)
