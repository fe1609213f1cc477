"""The answer in a dozen lines: what to rent, what it does, how sure that is, what holds it back, what to
try first, two others to take, what is assumed, and how far to trust it.

It is made of an answer's document, whatever the task, in the reader's language.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from advisor.domain import Task
from advisor.domain.decision import Judged
from advisor.render.blocks import Command, Facts, Leaf, Paragraph, lower_rate, translated
from advisor.render.facts import covers_clouds, place_name, spec_name
from advisor.render.i18n.catalogue import Texts, report_texts
from advisor.render.phrases import ENGINES, seconds_text
from advisor.render.price_doubt import resting_lines
from advisor.render.sentences import basis_sentence, borderline_calls, borderline_sentence, stage_name
from advisor.render.text import (
    INDENT,
    WIDTH,
    fact,
    fact_lines,
    folded_command,
    lower_name,
    spec_lines,
    upper_name,
    wrapped,
)
from advisor.render.views.specs import machine_message, placement_message
from advisor.units import format_hours, format_rate, format_usd

Record = Mapping[str, Any]
LINES = 12
# How much a block is needed that is never spared.
_NEEDED = 5
# What is assumed and a reader may want to change: by field of the request, how it is said, and its option.
_ASSUMED = (
    ("dataset", "{}", "--dataset"),
    ("stack", "{}", "--stack"),
    ("protocol", "a typical {}", "--protocol"),
    ("input_tokens", "{} tokens in", "--input-tokens"),
    ("output_tokens", "{} out", "--output-tokens"),
    ("engine", "{}", "--engine"),
    ("method", "{}", "--method"),
    ("sequence", "sequences of {} tokens", "--sequence"),
)


def brief_text(answer: Judged[Any, Any], asked: str, document: Record) -> str:
    """The answer for a terminal in `LINES` lines; `asked` is the question. What may be spared goes where
    there is no room for it: `--explain` has it."""
    assert answer.chosen is not None
    _, *head = spec_lines(answer.chosen.spec, answer.request)
    head = [*resting_lines(answer), *head]
    blocks = [(rank, _lines(block)) for rank, block in brief_blocks(asked, document, report_texts("en"))]
    for least in range(_NEEDED + 1):
        lines = [*head, *(line for rank, some in blocks if rank >= least for line in some)]
        if len(lines) <= LINES:
            break
    return "\n".join(lines)


def _lines(block: Leaf) -> list[str]:
    if isinstance(block, Facts):
        return fact_lines(block.pairs)
    if isinstance(block, Command):
        return [fact("", line) for line in folded_command(block.text, WIDTH - INDENT)]
    return textwrap.wrap(block.text, WIDTH) if isinstance(block, Paragraph) else []


def brief_blocks(asked: str, document: Record, t: Texts) -> Iterator[tuple[int, Leaf]]:
    """The blocks below the name and price of an answer's spec, each with how much it is needed: from 0,
    which is spared first, to `_NEEDED`."""
    spec, request = document["recommendation"], document["request"]
    facts = [("for", asked), ("on", _machine(spec, t)), ("does", _rate(spec, t)), *_binding(spec, t)]
    yield _NEEDED, Facts(facts)
    yield from _sure(document, t)
    titles = ("or take", "")
    for title, other in zip(titles, _of_other_kinds(spec, document["alternatives"]), strict=False):
        yield (_NEEDED if title else 1), Facts([(title, _other(other, document, t))])
    yield 3, Facts([("assumed", _assumed(request))])
    # The risk counts what lies outside of what was measured.
    beside = [translated(text, t) for text in document["warnings"] if text not in spec["extrapolation"]]
    if beside:
        yield 4, Paragraph(" ".join(wrapped("Warning", beside, 2)))
    yield _NEEDED, Paragraph(t("brief.trust", basis=basis_sentence(spec, t)))


def _machine(spec: Record, t: Texts) -> str:
    """'1 x L40S 45 GiB, 4 vCPUs (2 cores), 32 GiB RAM; vLLM 0.18, bf16, 1 replica on 1 GPU'."""
    machine, serving = translated(machine_message(spec, decodes=False), t), spec.get("serving")
    parts = [machine if spec["count"] == 1 else t("brief.each", machine=machine)]
    if serving:
        engine = f"{ENGINES.get(serving['engine'], serving['engine'])} {serving['engine_version']}"
        placed = translated(placement_message(serving["placement"]), t)
        formats = dict.fromkeys((serving["precision"], serving["kv_precision"]))
        parts.append(", ".join([engine, "/".join(formats), placed]))
    return t.listed(parts)


def _rate(spec: Record, t: Texts) -> str:
    """The rate with its bound, then the time and cost of the run, or the cost of a million."""
    predicted = spec["predicted"]
    rates, unit, confidence = predicted["throughput"], predicted["unit"], predicted["confidence"]
    rate = t(
        "brief.rate",
        median=format_rate(rates["median"]),
        unit=t.known(f"unit.{unit}", unit),
        p10=lower_name(confidence),
        lower=lower_rate(rates["lower"]),
    )
    run, serving, cost = spec.get("run"), spec.get("serving"), spec.get("cost")
    if run:
        p90, usd = upper_name(confidence), run["usd"]
        spans = [
            _span(run["hours"], format_hours, p90, t),
            *([_span(usd, format_usd, p90, t)] if usd else []),
        ]
        return t.listed([*spans, rate])
    if serving:
        times = serving["rates"]
        latency = [f"TTFT {seconds_text(times['ttft_seconds']['median'])}"]
        if serving["output_tokens"] > 1:
            latency.append(f"TPOT {seconds_text(times['tpot_seconds']['median'])}")
        usd = cost and cost["usd_per_million_output_tokens"]["median"]
        per_million = [t("brief.tokens", usd=format_usd(usd))] if usd is not None else []
        return t.listed([rate, ", ".join(latency), *per_million])
    usd = cost and cost["usd_per_million_samples"]
    return t.listed([rate, *([t("brief.samples", usd=format_usd(usd))] if usd is not None else [])])


def _span(span: Record, write: Callable[[float], str], p90: str, t: Texts) -> str:
    upper = "?" if span["upper"] is None else write(span["upper"])
    return t("brief.span", median=write(span["median"]), p90=p90, upper=upper)


def _binding(spec: Record, t: Texts) -> Iterator[tuple[str, str]]:
    """The stage that holds the rate back, and the one that would do so next."""
    if not spec.get("bottleneck"):
        return
    text, used = stage_name(spec["bottleneck"], t), spec.get("utilization", {})
    others = sorted((share, stage) for stage, share in used.items() if stage != spec["bottleneck"])
    if others:
        share, stage = others[-1]
        text = t("brief.next", first=text, second=stage_name(stage, t), share=f"{100 * share:.0f}")
    yield "bound by", text


def _sure(document: Record, t: Texts) -> Iterator[tuple[int, Leaf]]:
    """How sure the answer is, the trial that settles it, and what is safe without; else a cheaper spec that
    may do."""
    sentences = [translated(sentence, t) for sentence in (document["decision"] or {}).get("sentences", ())]
    if sentences:
        yield _NEEDED, Facts([("how sure", t.listed(sentences))])
    calls, others = document["close_calls"], borderline_calls(document)
    if others:
        target = document["request"].get("target_throughput")
        sentence = borderline_sentence(others[0], target, t, clouds=covers_clouds(document))
        yield 2, Facts([("or try", f"{sentence.removesuffix(':')}.")])
    if calls:
        yield 0, Command((others or calls)[0]["trial"]["command"])


def _of_other_kinds(spec: Record, others: Sequence[Record]) -> Sequence[Record]:
    """The first of the others with another GPU, cloud or market each; else the first ones."""
    seen, shown = {_kind(spec)}, list[Record]()
    for other in others:
        if _kind(other) not in seen:
            seen.add(_kind(other))
            shown.append(other)
    return shown or others


def _kind(spec: Record) -> tuple[Any, ...]:
    return (spec["gpu"] and spec["gpu"]["name"], spec["cloud"], spec["market"])


def _other(spec: Record, document: Record, t: Texts) -> str:
    """'g6.2xlarge (L4) at $0.978/h, p10 843/s'."""
    clouds = covers_clouds(document)
    place = f" {place_name(spec, clouds=clouds)}" if clouds else ""
    gpu = " ({})".format(re.split("-| Blackwell", spec["gpu"]["name"])[0]) if spec["gpu"] else ""
    return t(
        "brief.other",
        name=f"{spec_name(spec)}{place}{gpu}",
        usd=format_usd(spec["price"]["total_usd_per_hour"]),
        p10=lower_name(spec["predicted"]["confidence"]),
        lower=lower_rate(spec["predicted"]["throughput"]["lower"]),
    )


def _assumed(request: Record) -> str:
    """'imagenet (--dataset), eager (--stack)'."""
    says = []
    for field, text, option in _ASSUMED:
        value = request.get(field)
        if value is not None and (field != "protocol" or request["task"] == Task.TRAINING):
            says.append(f"{text.format(_written(value))} ({option})")
    return ", ".join(says)


def _written(value: Any) -> str:
    if isinstance(value, Mapping):
        return (
            f"{value['name']} as {value['storage_format']}"
            if value["kind"] == "image"
            else str(value["name"])
        )
    return value if isinstance(value, str) else f"{value:,.0f}"
