"""A recommendation about a language model as blocks: what reports and the service's page show of
its document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from advisor.domain import LIST
from advisor.render.content import Chart, Column, Facts, Items, Leaf, Look, Paragraph, Part, Table, translated
from advisor.render.document_names import covers_clouds, place_name, spec_name, type_name
from advisor.render.i18n.catalogue import Texts
from advisor.render.i18n.filters import lower_rate
from advisor.render.language.picture import front_picture
from advisor.render.phrases import ENGINES, count_text, gib_text, seconds_text
from advisor.render.price_parts import by_price, price_call_leaves
from advisor.render.text import lower_name, upper_name
from advisor.units import format_hours, format_rate, format_usd

Record = Mapping[str, Any]
MOST_REJECTED = 25


def language_parts(document: Record, t: Texts, rejected: int = MOST_REJECTED) -> list[Leaf | Part]:
    """The whole answer, most important first, with so many `rejected` types."""
    return [*answer_parts(document, t), *detail_parts(document, t, rejected)]


def answer_parts(document: Record, t: Texts) -> list[Leaf | Part]:
    """What is recommended, what its price and its rates are known from, and what to relax."""
    chosen = document["recommendation"]
    blocks: list[Leaf | Part] = [*price_call_leaves(document, t)]
    blocks.append(Paragraph(answer_sentence(document, t), "answer"))
    blocks += [] if chosen is None else [Paragraph(_known_from(chosen, t))]
    relax = [_relaxation(one, clouds=covers_clouds(document)) for one in document["relax"]]
    return [*blocks, *([Part(t("lm.relax"), [Items(relax)])] if relax else [])]


def detail_parts(document: Record, t: Texts, rejected: int) -> list[Leaf | Part]:
    """What the spec does, what else could be done, other specs, and what is assumed."""
    chosen, blocks = document["recommendation"], list[Leaf | Part]()
    if chosen is not None:
        blocks.append(spec_facts(chosen, t))
        blocks += [*_front(document, t), *steps_parts(document, t)]
    blocks += other_parts(document, t, rejected)
    about = t("lm.data", date=document["catalog"]["as_of"], id=document["performance_model"]["id"])
    return [*blocks, Paragraph(about, "note")]


def other_parts(document: Record, t: Texts, rejected: int) -> list[Part]:
    """Other specs, and what is assumed and warned of."""
    parts = _alternatives(document, t) + _rejected(document, t, rejected)
    for key in ("assumptions", "warnings"):
        texts = [translated(one, t) for one in document[key]]
        heading = t("lm.assumed" if key == "assumptions" else "lm.warnings")
        parts += [Part(heading, [Items(texts)])] if texts else []
    return parts


def answer_sentence(document: Record, t: Texts) -> str:
    """What is recommended with its price and rate; or that nothing is, and what comes nearest."""
    chosen, nearest = document["recommendation"], document["nearest"]
    confidence = document["request"]["confidence"]
    if chosen is None:
        return t.joined([t("lm.none"), *([_nearest(document, t)] if nearest else [])])
    rate = chosen["predicted"]["throughput"]
    values = {
        "spec": spec_name(chosen),
        "disk": chosen["disk"]["order"],
        "region": place_name(chosen, clouds=covers_clouds(document)),
        "market": t(f"market.{chosen['market']}"),
        "usd": format_usd(chosen["price"]["total_usd_per_hour"]),
        "p10": lower_name(confidence),
        "p90": upper_name(confidence),
        "lower": lower_rate(rate["lower"]),
        "median": format_rate(rate["median"]),
        "upper": format_rate(rate["upper"]),
    }
    if "serving" in chosen:
        flight = count_text(chosen["serving"]["rates"]["concurrency"])
        return t("lm.answer", flight=flight, **values)
    run = chosen["run"]
    hours, cost = format_hours(run["hours"]["median"]), format_usd(run["usd"]["median"])
    told = t("lm.answer_tuning", hours=hours, cost=cost, **values)
    return t.joined([told, *by_price(run, "run.cost_by_price", t)])


def _nearest(document: Record, t: Texts) -> str:
    nearest, confidence = document["nearest"], document["request"]["confidence"]
    rate = nearest["predicted"]["throughput"]
    return t(
        "lm.nearest",
        spec=spec_name(nearest),
        region=place_name(nearest, clouds=covers_clouds(document)),
        usd=format_usd(nearest["price"]["total_usd_per_hour"]),
        p10=lower_name(confidence),
        lower=lower_rate(rate["lower"]),
        median=format_rate(rate["median"]),
    )


def _known_from(chosen: Record, t: Texts) -> str:
    level = chosen["risk"]
    anchored = chosen["predicted"]["provenance"] == "anchored"
    return t("lm.stands_anchored" if anchored else "lm.stands", risk=t(f"risk.{level}"), number=level)


def spec_facts(spec: Record, t: Texts) -> Facts:
    """What it does: formats, times, memory, cost."""
    return Facts(list(_facts(spec, t)))


def _facts(spec: Record, t: Texts) -> Iterator[tuple[str, str]]:
    if spec["gpu"]:
        yield t("lm.gpu"), f"{spec['gpu']['count']} x {spec['gpu']['name']}"
    if "serving" in spec:
        yield from _serving_facts(spec, t)
    else:
        yield from _tuning_facts(spec, t)


def _serving_facts(spec: Record, t: Texts) -> Iterator[tuple[str, str]]:
    serving, cost = spec["serving"], spec["cost"]
    rates, placed = serving["rates"], serving["placement"]
    name = ENGINES.get(serving["engine"], serving["engine"])
    yield t("lm.engine"), t("lm.engine_value", name=name, version=serving["engine_version"])
    yield t("lm.formats"), f"{serving['precision']}, {serving['kv_precision']}"
    yield (
        t("lm.placement"),
        t(
            "lm.placement_value" if placed["tensor_parallel"] > 1 else "lm.placement_single",
            replicas=placed["replicas"],
            gpus=placed["tensor_parallel"],
            link=placed["link"],
        ),
    )
    yield (
        t("lm.lengths"),
        t(
            "lm.lengths_value",
            input=f"{serving['input_tokens']:,.0f}",
            output=f"{serving['output_tokens']:,.0f}",
        ),
    )
    for key, of in (("lm.requests", "requests_per_second"), ("lm.user", "output_tokens_per_second_per_user")):
        yield t(key), f"{lower_rate(rates[of]['lower'])} .. {format_rate(rates[of]['median'])}"
    for key, of in (("lm.ttft", "ttft_seconds"), ("lm.tpot", "tpot_seconds"), ("lm.e2e", "e2e_seconds")):
        yield t(key), span_text(rates[of], t)
    yield from _memory_facts(serving["memory_per_gpu"], t)
    note = t("lm.cost_note")
    for key, of in (
        ("lm.cost_output", "usd_per_million_output_tokens"),
        ("lm.cost_input", "usd_per_million_input_tokens"),
    ):
        yield t(key), f"{format_usd(cost[of]['median'])}. {note}"
    ready = serving["ready_seconds"]
    yield (
        t("lm.ready"),
        t(
            "lm.ready_value",
            total=seconds_text(ready["total"]),
            load=seconds_text(ready["load_weights"]),
            start=seconds_text(ready["start_engine"]),
        ),
    )
    yield t("lm.bound"), t(f"bind.{spec['bottleneck']}")


def span_text(span: Record, t: Texts) -> str:
    """'38 ms on average, at most 52 ms': a bound of the mean of all requests, as the text's."""
    upper = span["upper"]
    return t(
        "lm.span",
        median=seconds_text(span["median"]),
        upper="?" if upper is None else seconds_text(upper, up=True),
    )


def _memory_facts(memory: Record, t: Texts) -> Iterator[tuple[str, str]]:
    sizes = {part: gib_text(memory[f"{part}_gib"]) for part in ("weights", "kv", "overhead", "free")}
    yield t("lm.memory"), t("lm.memory_value", **sizes)
    yield (
        t("lm.holds"),
        t(
            "lm.holds_value",
            count=f"{memory['largest_concurrency']:,}",
            context=f"{memory['longest_context']:,}",
        ),
    )


def _tuning_facts(spec: Record, t: Texts) -> Iterator[tuple[str, str]]:
    tuning = spec["tuning"]
    yield t("lm.micro_batch"), str(tuning["micro_batch"])
    kept = t("lm.recomputed" if tuning["checkpointing"] else "lm.kept")
    yield t("lm.checkpointing"), kept
    sizes = {name: gib_text(gib) for name, gib in tuning["memory_per_gpu"].items()}
    yield t("lm.memory"), t("lm.memory_tuning", **sizes)


def _front(document: Record, t: Texts) -> list[Leaf | Part]:
    front = document.get("serving", {}).get("front", ())
    if len(front) < 2:
        return []
    chart: Chart = front_picture(front, document["recommendation"], t)
    return [Part(t("lm.front"), [chart, front_table(front, document["request"], t)])]


def front_table(front: Sequence[Record], request: Record, t: Texts) -> Table:
    """The points of the chart."""
    columns = [
        Column(t("lm.runs"), lambda point: f"{point['replicas']} x TP{point['tensor_parallel']}"),
        Column(t("lm.in_flight"), lambda point: count_text(point["concurrency"])),
        Column(t("lm.ttft"), lambda point: seconds_text(point["ttft_seconds"]["median"])),
        Column(t("lm.tpot"), lambda point: seconds_text(point["tpot_seconds"]["median"])),
        Column(
            t("lm.lower", p10=lower_name(request["confidence"])), "output_tokens_per_second.lower", Look.LOWER
        ),
        Column(t("lm.median"), "output_tokens_per_second.median", Look.RATE),
        Column(t("lm.million"), "usd_per_million_output_tokens.median", Look.USD),
        Column(t("lm.misses"), lambda point: _missed(point, t)),
    ]
    return Table(columns, front)


def _missed(point: Record, t: Texts) -> str:
    """What a point misses; documents of earlier versions do not tell which."""
    if point["answers"]:
        return t("misses.nothing")
    return t("misses." + (point.get("misses") or "any"))


def steps_parts(document: Record, t: Texts) -> list[Part]:
    """What one thing more would bring."""
    steps = [step for step in document.get("serving", {}).get("steps", ()) if step["option"]]
    if not steps:
        return []
    columns = [
        Column(t("lm.step"), "option", Look.NAME),
        Column(t("lm.median"), "gives.output_tokens_per_second.median", Look.RATE),
        Column(t("lm.tpot"), lambda step: _given(step, "tpot_seconds")),
        Column(t("lm.million"), "gives.usd_per_million_output_tokens.median", Look.USD),
        Column(t("lm.why_not"), lambda step: translated(step["why_not"] or "", t)),
    ]
    return [Part(t("lm.steps"), [Table(columns, steps)])]


def _given(step: Record, name: str) -> str | None:
    return step["gives"] and seconds_text(step["gives"][name]["median"])


def _alternatives(document: Record, t: Texts) -> list[Part]:
    specs, clouds = document["alternatives"], covers_clouds(document)
    if not specs:
        return []
    columns = [
        Column(
            t("lm.instance"),
            lambda spec: f"{spec_name(spec)} {place_name(spec, clouds=True)}" if clouds else spec_name(spec),
            Look.NAME,
        ),
        Column(t("lm.gpu"), lambda spec: f"{spec['gpu']['count']} x {spec['gpu']['name']}"),
        Column(t("lm.disk"), "disk.order", Look.LONG),
        Column(t("lm.per_hour"), "price.total_usd_per_hour", Look.USD),
        Column(
            t("lm.lower", p10=lower_name(document["request"]["confidence"])),
            "predicted.throughput.lower",
            Look.LOWER,
        ),
        Column(t("lm.median"), "predicted.throughput.median", Look.RATE),
        *_cost_columns(specs[0], t),
        *_price_columns([document["recommendation"], *specs], t),
    ]
    return [Part(t("lm.alternatives"), [Table(columns, specs)])]


def _price_columns(specs: Sequence[Record], t: Texts) -> list[Column]:
    """Market and kind of the prices; nothing where all are on one market, and listed."""
    if len({spec["market"] for spec in specs}) == 1 and all(spec["price"]["kind"] == LIST for spec in specs):
        return []
    return [
        Column(
            t("lm.price"),
            lambda spec: f"{t('market.' + spec['market'])}, {t('kind.' + spec['price']['kind'])}",
        )
    ]


def _cost_columns(spec: Record, t: Texts) -> list[Column]:
    if "serving" in spec:
        return [Column(t("lm.million"), "cost.usd_per_million_output_tokens.median", Look.USD)]
    return [
        Column(t("lm.hours"), lambda spec: format_hours(spec["run"]["hours"]["median"])),
        Column(t("lm.run_cost"), "run.usd.median", Look.USD),
    ]


def _rejected(document: Record, t: Texts, most: int) -> list[Part]:
    shown, clouds = document["rejected"][:most], covers_clouds(document)
    if not shown:
        return []
    columns = [
        Column(t("lm.instance"), lambda one: type_name(one, clouds=clouds), Look.NAME),
        Column(t("lm.per_hour"), "usd_per_hour", Look.USD),
        Column(t("lm.reason"), lambda one: t.known(f"reason.{one['reason']}", one["reason"])),
        Column(t("lm.detail"), lambda one: translated(one["detail"], t)),
    ]
    return [Part(t("lm.rejected"), [Table(columns, shown)], detail=True)]


def _relaxation(one: Record, *, clouds: bool) -> str:
    changes = ", ".join(f"{change['option']} {change['to']}".strip() for change in one["changes"])
    gives = one["gives"]
    return f"{changes}: {type_name(gives, clouds=clouds)}, {format_usd(gives['total_usd_per_hour'])}/h"
