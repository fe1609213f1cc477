"""The pages of the catalogue: instance types, GPUs, and one type with its prices and rates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from advisor.answers import ask
from advisor.answers.context import Context
from advisor.answers.listing import gpus_document_of, page_of, query_of, shown_type
from advisor.domain import Task
from advisor.errors import AdvisorError
from advisor.messages import format_mib, format_rate
from advisor.questions.listings import Gpus, InstanceDetails, Offers
from advisor.questions.network import Predict
from advisor.questions.settled import DEFAULT_REGION
from advisor.render.blocks import Column, Facts, Look, Table
from advisor.render.i18n.catalogue import Texts
from advisor.render.sentences import gpu_name, rate_columns
from advisor.service.answers import context_of, threads_of
from advisor.service.page.frame import Frame
from advisor.service.page.question import answered, choices_of, question_of
from advisor.service.page.specs import NOTHING, gpu_text, setting_of

Record = Mapping[str, Any]
View = Callable[[Context, dict[str, str], Frame], dict[str, Any]]
# The rows of one page, and the most digits of a cursor (the index of its first row).
ROWS, _MOST_DIGITS = 50, 7
# Networks whose rates are shown for every instance type: popular ones of several kinds.
POPULAR = (
    *("resnet50", "efficientnet_b0", "vit_b_16", "yolov8s", "maskrcnn_resnet50_fpn"),
    *("bert-base-uncased", "gpt2", "whisper-large-v3", "stable-diffusion-xl", "googlenet"),
)
router = APIRouter(include_in_schema=False)


@router.get("/catalog")
async def offers(request: Request) -> Response:
    """A page of priced instance types, cheapest first."""
    return await _answered(request, _offers, {"cloud": "aws", "region": "us-east-1", "market": "on-demand"})


@router.get("/catalog/gpus")
async def gpus(request: Request) -> Response:
    """The GPUs with their specifications and the cheapest instance type that has each."""
    return await _answered(request, _gpus, {"cloud": "aws", "market": "on-demand"})


@router.get("/catalog/{instance_type}")
async def instance(request: Request, instance_type: str) -> Response:
    """One instance type: its hardware, its price by region, and its rates for `POPULAR` networks."""
    return await _answered(request, partial(_instance, instance_type), {"market": "on-demand"})


async def _answered(request: Request, view: View, usual: Record) -> Response:
    return await threads_of(request).run(_page, request, view, usual, slow=True)


def _page(request: Request, view: View, usual: Record) -> Response:
    frame, context = Frame(request), context_of(request)
    words = {**(usual if not frame.words else {}), **dict(frame.words)}
    values, status = answered(frame, view, context, words, frame)
    values = {"title": frame.texts("catalog.title"), "next_href": None, "facts": None, "tables": ()} | values
    choices = choices_of(context, words, frame.texts)
    template = "catalog_rows.html" if frame.is_part else "catalog.html"
    return frame.page(template, status=status, choices=choices, **values | {"words": words})


def _offers(context: Context, words: dict[str, str], frame: Frame) -> dict[str, Any]:
    t, cursor = frame.texts, words.get("cursor", "0")
    first = int(cursor) if cursor.isdecimal() and len(cursor) <= _MOST_DIGITS else 0
    question = question_of(Offers, {name: text for name, text in words.items() if name != "cursor"})
    page = page_of(context.catalog, query_of(question), first, ROWS)
    rows = page.document(context.catalog)["offers"]
    columns = [
        Column(t("table.instance"), "instance_type", Look.TEXT, link=partial(_type_href, frame)),
        Column(t("table.gpu"), lambda row: gpu_text(row["gpu"])),
        Column(t("field.vcpus"), "vcpus", Look.NUMBER, NOTHING),
        Column(t("field.memory"), lambda row: row["memory_mib"] and format_mib(row["memory_mib"])),
        Column(t("table.region"), lambda row: f"{row['cloud']} {row['region']}"),
        Column(t("field.market"), lambda row: t.known(f"market.{row['market']}", row["market"])),
        *_price_columns(t, "price."),
    ]
    more = first + len(rows) < page.total
    return {
        "problem": None,
        "said": t("catalog.said", number=f"{page.total:,}"),
        "tables": [(t("catalog.types", number=f"{page.total:,}"), "", Table(columns, rows))],
        "next_href": frame.same("/catalog", cursor=first + ROWS) if more else None,
    }


def _gpus(context: Context, words: dict[str, str], frame: Frame) -> dict[str, Any]:
    t = frame.texts
    rows = gpus_document_of(context.catalog, question_of(Gpus, words))["gpus"]
    columns = [
        Column(t("table.gpu"), "name"),
        Column(t("catalog.architecture"), "architecture"),
        Column(t("catalog.memory"), "memory_mib", Look.MIB, NOTHING),
        Column("GB/s", "memory_gb_per_second", Look.RATE, NOTHING),
        Column("fp32 TFLOPS", "fp32_tflops", Look.RATE, NOTHING),
        Column("fp16 TFLOPS", "fp16_tflops", Look.RATE, NOTHING),
        Column(t("catalog.per_gpu"), "usd_per_gpu_hour", Look.USD, NOTHING),
        Column(
            t("catalog.cheapest"),
            lambda row: row["cheapest"] and row["cheapest"]["instance_type"],
            unknown=NOTHING,
            link=lambda row: _type_href(frame, row["cheapest"] or {}),
        ),
    ]
    said = t("catalog.gpus", number=len(rows))
    return {"problem": None, "said": said, "tables": [(said, t("catalog.sheet"), Table(columns, rows))]}


def _instance(name: str, context: Context, words: dict[str, str], frame: Frame) -> dict[str, Any]:
    t = frame.texts
    document = shown_type(context.catalog, name, question_of(InstanceDetails, words))
    prices = [{"region": region, **price} for region, price in document["prices"].items()]
    prices.sort(key=lambda price: price["usd_per_hour"])
    columns = [Column(t("table.region"), "region"), *_price_columns(t, "")]
    tables = [(t("catalog.prices"), "", Table(columns, prices))]
    if document["ranked"] and prices:
        home = DEFAULT_REGION.get(document["cloud"], "")
        region = home if home in document["prices"] else prices[0]["region"]
        location = {"cloud": document["cloud"], "region": region, "market": document["market"]}
        fields = {"instance": document["instance_type"], **location}
        rows = list(_rates(context, fields))
        tables.insert(0, (t("catalog.does"), t("catalog.does_note"), _rates_table(rows, fields, frame)))
    return {
        "problem": None,
        "title": document["instance_type"],
        "said": document["instance_type"],
        "facts": Facts(list(_facts(document, t))),
        "tables": tables,
    }


def _facts(document: Record, t: Texts) -> Iterator[tuple[str, str]]:
    yield t("field.cloud"), document["cloud"]
    yield t("table.gpu"), gpu_name(document, t)
    yield t("field.vcpus"), f"{document['vcpus']:g}" if document["vcpus"] else NOTHING
    yield t("field.memory"), format_mib(document["memory_mib"]) if document["memory_mib"] else NOTHING
    if document["ranked"]:
        yield t("catalog.cpu"), f"{document['cpu']['model']} ({document['cpu']['architecture']})"
        local, disks = document["local_disk"], document["network_disks"]
        if local["size_gib"]:
            yield t("catalog.local"), format_mib(local["size_gib"] * 1024)
        if disks["baseline_mib_per_second"]:
            yield t("catalog.disks"), f"{format_rate(disks['baseline_mib_per_second'])} MiB/s"
    if document["remark"]:
        yield t("catalog.remark"), document["remark"]


def _rates(context: Context, fields: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Predictions for each of the `POPULAR` networks and tasks, without those that fail."""
    for model in POPULAR:
        for task in (Task.INFERENCE, Task.TRAINING):
            words = {**fields, "model": model, "task": str(task)}
            try:
                answer = ask.predict(context, question_of(Predict, words)).document()
            except AdvisorError:
                continue
            yield {"model": model, "task": str(task), **answer}


def _rates_table(rows: list[dict[str, Any]], fields: Mapping[str, str], frame: Frame) -> Table:
    t = frame.texts
    confidence = rows[0]["predicted"]["confidence"] if rows else None
    columns = [
        Column(
            t("table.network"),
            "model",
            link=lambda row: frame.here("/predict", **fields, model=row["model"], task=row["task"]),
        ),
        Column(t("field.task"), lambda row: t(f"task.{row['task']}")),
        Column(t("field.precision"), setting_of),
        *rate_columns(t, confidence, "predicted.throughput.")[:2],
        Column(t("table.per_million_samples"), "cost.usd_per_million_samples", Look.USD, NOTHING),
    ]
    return Table(columns, rows)


def _price_columns(t: Texts, path: str) -> list[Column]:
    return [
        Column(t("table.per_hour"), f"{path}usd_per_hour", Look.USD, NOTHING),
        Column(t("table.kind"), f"{path}kind"),
        Column(t("table.as_of"), f"{path}as_of", Look.DAY),
    ]


def _type_href(frame: Frame, row: Record) -> str:
    place = {name: row[name] for name in ("cloud", "market") if name in row}
    return frame.here(f"/catalog/{row.get('instance_type', '')}", **place)
