"""`/compare`: a page that compares instances, GPUs or whole specs on one scale."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from fastapi import APIRouter

from advisor.answers import ask
from advisor.answers.context import Context
from advisor.domain.words import LanguageTask
from advisor.errors import UsageError
from advisor.messages import Message, format_mib, format_rate, format_usd
from advisor.questions.fields import error_in
from advisor.questions.language import CompareGeneration
from advisor.questions.network import Compare, Predict
from advisor.render.blocks import Column, Look, Table, lower_rate
from advisor.render.i18n.catalogue import Texts
from advisor.render.phrases import seconds_text, way_text
from advisor.render.sentences import bound_name, columns_of, disk_name, rate_columns
from advisor.service.page.frame import Frame
from advisor.service.page.question import (
    QuestionPage,
    question_of,
    speaks,
    target_of,
    words_of_spec,
    workload_fields,
)
from advisor.service.page.specs import (
    NOTHING,
    disk_text,
    gpu_text,
    interval_bar,
    interval_text,
    setting_of,
    spec_fields,
)

Record = Mapping[str, Any]
# The most specs compared at once; more columns are hard to read.
MOST = 4
_PLACE = ("cloud", "region", "market")


class Fact(NamedTuple):
    """A table row: its name, the getter of a spec's value (None: a dash), its formatter, and min or max."""

    name: str
    of: Callable[[Record], Any]
    write: Callable[[Any], str] = str
    best: Callable[[Iterable[Any]], Any] | None = None

    def row(self, specs: Sequence[Record]) -> dict[str, Any]:
        """The text for each spec, and the index of the best one (None if all are equal)."""
        values = [self.of(spec) for spec in specs]
        known = {value for value in values if value is not None}
        best = values.index(self.best(known)) if self.best and len(known) > 1 else None
        texts = [NOTHING if value is None else self.write(value) for value in values]
        return {"name": self.name, "texts": texts, "best": best}


def _instances_view(document: Record, target: float | None, t: Texts) -> dict[str, Any]:
    """Values of `comparison.html` for instances or GPUs: one group per network, with bars on one scale."""
    rows, groups = document["rows"], []
    models = [request["model"] for request in document["requests"]]
    sentences = dict(zip(models, document["asked"], strict=True))
    for network in dict.fromkeys(row["network"] for row in rows):
        own = [row for row in rows if row["network"] == network]
        full = _full([row for row in own if row["predicted"]], target)
        warnings = [row.get("warnings", ()) for row in own]
        shared = [text for text in warnings[0] if all(text in others for others in warnings)]
        group = {
            "network": network,
            "asked": sentences[network],
            "baseline": own[0].get("relative_to"),
            "rows": [_row(row, full, target, shared, t) for row in own],
            "table": Table(_columns(own, t), own),
            "notes": list(dict.fromkeys(note for row in own for note in row["extrapolation"])),
        }
        groups.append(group)
    said = t("compare.said", number=len(rows))
    return {"problem": None, "said": said, "specs": None, "baseline": document["baseline"], "groups": groups}


def _columns(rows: Sequence[Record], t: Texts) -> list[Column]:
    """The columns of a table of instances or GPUs. Cells show a dash if no batch fits."""
    confidences = [row["predicted"]["confidence"] for row in rows if row["predicted"]]
    of_gpus = not any("instance_type" in row for row in rows)

    def bound(row: Record) -> str | None:
        return bound_name(row, t) if row["predicted"] else None

    columns = [
        Column(t("table.gpu" if of_gpus else "table.instance"), _name),
        Column(t("table.batch"), "batch_size", Look.WHOLE),
        Column(t("field.precision"), lambda row: setting_of(row) if row["predicted"] else None),
        *rate_columns(t, confidences[0] if confidences else None, "predicted.throughput."),
    ]
    if not of_gpus:
        columns += columns_of(
            t,
            ("per_hour", "total_usd_per_hour", Look.USD),
            ("per_million_samples", "usd_per_million_samples", Look.USD),
            ("bound", bound),
        )
    columns.append(Column(t("table.stands"), lambda row: _provenance(row, t) if row["predicted"] else None))
    return [column._replace(unknown=NOTHING) for column in columns]


def _name(row: Record) -> str:
    return str(row.get("instance_type") or row["gpu"]["name"])


def _provenance(row: Record, t: Texts) -> str:
    return t("provenance." + row["predicted"]["provenance"])


def _row(row: Record, full: float, target: float | None, shared: Sequence[Any], t: Texts) -> dict[str, Any]:
    """Values of one instance or GPU: its bar, and the warnings that are not `shared` by all rows."""
    warnings = [text for text in row.get("warnings", ()) if text not in shared]
    view = {"name": _name(row), "relative": row["relative"], "warnings": warnings}
    if row["predicted"] is None:
        return view | {"fits": False}
    bar, label = _bar(row, full, target, t)
    return view | {"fits": True, "bar": bar, "bar_label": label, "has": _has(row, t)}


def _has(row: Record, t: Texts) -> str:
    if "vcpus" not in row:
        return format_mib(row["gpu"]["memory_mib"])
    machine = t("answer.vcpus", vcpus=f"{row['vcpus']:g}", cores=f"{row['physical_cores']:g}")
    return f"{gpu_text(row['gpu'])} · {machine} · {disk_name(row['disk']['order'], t)}"


def _specs_view(
    specs: Sequence[Record],
    model: str,
    facts: Sequence[Fact],
    target: float | None,
    t: Texts,
    what_if: Sequence[str] = (),
) -> dict[str, Any]:
    """Values of `comparison.html` for specs: one column per spec, one row per fact."""
    full = _full(specs, target)
    view = {
        "names": [spec["instance_type"] for spec in specs],
        "bars": [_bar(spec, full, target, t) for spec in specs],
        "facts": [fact.row(specs) for fact in facts],
        "what_if": what_if,
        "network": model,
    }
    return {"problem": None, "specs": view, "said": t("compare.said", number=len(specs))}


def _full(rows: Sequence[Record], target: float | None) -> float:
    return max([target or 0.0, *(row["predicted"]["throughput"]["upper"] for row in rows)]) or 1.0


def _bar(row: Record, full: float, target: float | None, t: Texts) -> tuple[Any, str]:
    bar = interval_bar(row["predicted"]["throughput"], target, t("chart.target"), full)
    return bar, interval_text(row["predicted"], target, t)


def _facts(
    specs: Sequence[Record], samples: str, cost: str, facts_of_task: Sequence[Fact], t: Texts
) -> list[Fact]:
    priced = (
        Column(t("table.per_hour"), "price.total_usd_per_hour"),
        Column(t(f"table.per_million_{samples}"), cost),
    )
    rates = rate_columns(t, specs[0]["predicted"]["confidence"], "predicted.throughput.")
    written = (lower_rate, format_rate, format_rate)
    return [
        *(Fact(column.heading, column.value, format_usd, min) for column in priced),
        *(Fact(rate.heading, rate.value, write, max) for rate, write in zip(rates, written, strict=True)),
        *facts_of_task,
        Fact(t("table.gpu"), lambda spec: gpu_text(spec["gpu"])),
        Fact(t("field.vcpus"), lambda spec: f"{spec['vcpus']:g}"),
        Fact(t("field.memory"), lambda spec: format_mib(spec["memory_mib"])),
        Fact(t("table.disk"), lambda spec: disk_text(spec["disk"], t)),
        Fact(t("table.stands"), lambda spec: _provenance(spec, t)),
    ]


def _spec_words(words: Mapping[str, str]) -> list[str]:
    """The specs in the question, as texts. Raises `UsageError` unless there are two to `MOST` of them."""
    specs = [" ".join(word.split()) for word in words["spec"].split(",")]
    specs = [word for word in dict.fromkeys(specs) if word]
    if not 2 <= len(specs) <= MOST:
        hint = "divide them by commas: g5.xlarge gp3:500GiB, g6.xlarge local"
        raise error_in("spec", "{field} takes two to {most} specs", most=MOST, hint=hint)
    if words.get("instance") or words.get("gpu"):
        raise error_in(
            "spec", "{field} is compared without instances and GPUs", hint="leave the others empty"
        )
    return specs


def _predicted(context: Context, word: str, words: Mapping[str, str], frame: Frame) -> dict[str, Any]:
    names = ("instance", "disk", "batch_size")
    parts = word.split()
    if len(parts) > len(names):
        hint = "an instance, a disk and a batch size: g5.xlarge gp3:500GiB 64"
        raise UsageError(Message("no spec: {word!r}", word=word), field="spec", hint=hint)
    location = {name: words[name] for name in _PLACE if name in words}
    words = {**workload_fields(frame), **location, **dict(zip(names, parts, strict=False))}
    try:
        return ask.predict(context, question_of(Predict, words)).document()
    except UsageError as error:
        # This form has one field for specs instead of these.
        if error.field in names:
            error.field = "spec"
        raise


def _compared(context: Context, words: Mapping[str, str], frame: Frame) -> dict[str, Any]:
    return (_language if speaks(words) else _networks)(context, words, frame)


def _networks(context: Context, words: Mapping[str, str], frame: Frame) -> dict[str, Any]:
    t, target = frame.texts, target_of(words)
    if not words.get("spec"):
        document = ask.compare(context, question_of(Compare, words)).message_document()
        return _instances_view(document, target, t)
    specs = [_predicted(context, word, words, frame) for word in _spec_words(words)]
    of_networks = [
        Fact(t("table.bound"), lambda spec: bound_name(spec, t)),
        Fact(t("detail.batch"), lambda spec: spec["batch_size"]),
        Fact(t("field.precision"), setting_of),
    ]
    facts = _facts(specs, "samples", "cost.usd_per_million_samples", of_networks, t)
    locations = [{name: spec["request"][name] for name in _PLACE} for spec in specs]
    what_if = [
        frame.here("/predict", **words_of_spec(frame, {**location, **spec_fields(spec)}))
        for spec, location in zip(specs, locations, strict=True)
    ]
    return _specs_view(specs, specs[0]["request"]["model"], facts, target, t, what_if)


def _language(context: Context, words: Mapping[str, str], frame: Frame) -> dict[str, Any]:
    question = question_of(CompareGeneration, {**words, "task": LanguageTask.GENERATION})
    document, t = ask.compare(context, question).message_document(), frame.texts
    rows, requests = document["rows"], document.get("requests") or [document["request"]]
    models = [request["model"] for request in requests]
    target = requests[0]["target_output_tokens_per_second"]
    times = [
        Column(t(f"lm.{name}"), f"serving.rates.{name}_seconds.median") for name in ("ttft", "tpot", "e2e")
    ]
    of_serving = [
        *([Fact(t("field.model"), lambda row: row["model"])] if len(models) > 1 else []),
        Fact(t("compare.baseline", name=document["baseline"]), lambda row: f"{row['relative']:.2f}"),
        *(Fact(column.heading, column.value, seconds_text, min) for column in times),
        Fact(t("lm.bound"), lambda row: t(f"bind.{row['bottleneck']}")),
        Fact(t("lm.runs"), lambda row: way_text(row["serving"]["placement"])),
        Fact(t("lm.formats"), lambda row: "{precision}, {kv_precision}".format(**row["serving"])),
    ]
    facts = _facts(rows, "output_tokens", "cost.usd_per_million_output_tokens.median", of_serving, t)
    return _specs_view(rows, ", ".join(models), facts, target, t)


PAGE = QuestionPage(
    "compare.html",
    "comparison.html",
    _compared,
    {"task": "training", "model": "resnet50", "instance": "g4dn.xlarge,g5.xlarge,g6.xlarge"},
    frozenset(("instance", "gpu", "spec")),
    ("instance", "spec"),
)
router = APIRouter(include_in_schema=False)
router.get("/compare")(PAGE.answer)
