"""The answer in a dozen lines: what to rent, what it does, how sure that is, what to try first.

It is made of an answer's document, whatever the task, in the reader's language."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from advisor.domain import IMAGENET, Market, Task
from advisor.domain.decision import Judged
from advisor.domain.language import NO_PICTURES
from advisor.domain.results import P99_OVER_P50
from advisor.domain.words import LanguageTask, LlmEngine
from advisor.messages import Spell, option_name
from advisor.questions.traffic import USUAL_TRAFFIC, traffic_named
from advisor.render.blocks import Command, Facts, Leaf, Paragraph, lower_rate, percent, plain, translated
from advisor.render.borderline import modest
from advisor.render.facts import answer_facts, covers_clouds, decision_of, place_name, spec_name, type_name
from advisor.render.i18n.catalogue import Texts, report_texts
from advisor.render.phrases import ENGINES, seconds_text, speculation_message
from advisor.render.price_doubt import price_sentences
from advisor.render.sentences import (
    aimed_at,
    asked_sentence,
    basis_sentence,
    borderline_calls,
    borderline_sentence,
    bound_name,
    calls_of_chosen,
    instead_text,
    stage_name,
)
from advisor.render.terminal import block_lines
from advisor.render.text import folded, lower_name, spec_lines, upper_name, wrapped
from advisor.render.views.specs import (
    TIMES,
    api_message,
    machine_message,
    most_by_price,
    placement_message,
    run_usd_text,
)
from advisor.units import ceil_ms, format_hours, format_rate, format_usd

Record = Mapping[str, Any]
LINES = 12
# How much blocks are needed: one that is never spared, those on price, on what binds and on another spec
# to take, and one that warns.
_NEEDED, _PRICE, _BINDS, _TAKE, _WARNS = 8, 7, 6, 5, 4
# What is assumed and a reader may want to change: the fields of the request, some of them with a text.
_ASSUMED = (
    *("dataset", "stack", "protocol", "input_tokens", "output_tokens", "picture_tokens"),
    *("engine", "method", "sequence"),
)
# The option by which a field is changed that has none of its own.
_CHANGED_BY = {"picture_tokens": "images_per_request"}
# A dearer spec with less of the chosen one's rate is no alternative.
_LEAST_SHARE = 0.5
_OF_A_SPEC = ("cloud", "instance_type", "count", "market")


def brief_text(answer: Judged[Any, Any], asked: str, document: Record) -> str:
    """The answer in `LINES` lines for a terminal; what is spared stays in `--explain`."""
    assert answer.chosen is not None
    call = document["price_call"] or {"sentences": [], "borderline": False}
    resting = call["sentences"][:-1] if call["borderline"] else call["sentences"]
    head = [line for sentence in resting for line in folded(str(sentence))]
    head += spec_lines(answer.chosen.spec, answer.request)
    t = report_texts("en")
    *leaves, (_, trust) = brief_blocks(with_aims(asked, document, t), document, t)
    assert isinstance(trust, Paragraph)
    blocks = [(rank, block_lines([leaf])) for rank, leaf in leaves]
    last = folded(f"{trust.text} --explain has the rest.")
    for least in range(_NEEDED + 1):
        lines = [*head, *(line for rank, some in blocks if rank >= least for line in some), *last]
        if len(lines) <= LINES:
            break
    return "\n".join(lines)


def with_aims(asked: str, document: Record, t: Texts) -> str:
    """The question with what it aims at beside a rate, which that about a language model says itself."""
    says_all = document["request"]["task"] in set(LanguageTask)
    aims = None if says_all else aimed_at(document["request"], t)
    return t.listed([asked, aims]) if aims else asked


def brief_leaves(document: Record, t: Texts, spell: Spell = option_name) -> list[Leaf]:
    """The same blocks for a report or a page, which have room for all of them: the facts in one block, how
    far to trust it, and trials below them. They tell warnings elsewhere."""
    facts, others = dict[str, str](), list[Leaf]()
    section = {"answer": answer_facts(document), "recommendation": document}
    for _, block in brief_blocks(asked_sentence(section, t), document, t, spell):
        for name, text in block.pairs if isinstance(block, Facts) else ():
            title = name[:1].upper() + name[1:] or next(reversed(facts))
            facts[title] = t.listed([facts[title], text]) if title in facts else text
        others += [block] if isinstance(block, Paragraph) and block.kind == "note" else []
    return [Facts(list(facts.items())), *others, *trial_leaves(document, t)]


def brief_blocks(
    asked: str, document: Record, t: Texts, spell: Spell = option_name
) -> Iterator[tuple[int, Leaf]]:
    """The blocks below the name and price of an answer's spec, each with how much it is needed: from 0,
    which is spared first, to `_NEEDED`; fields of the question as `spell` names them."""
    spec, request = document["recommendation"], document["request"]
    facts = [
        (t("brief.for"), asked),
        (t("brief.on"), _machine(spec, request, t)),
        (t("brief.does"), _rate(spec, request, t)),
    ]
    yield _NEEDED, Facts(facts)
    yield _BINDS, Facts(list(binding_facts(spec, t)))
    yield from sure_leaves(document, t)
    call = document.get("price_call") or {}
    if call.get("cheaper") and "per" in call:
        cheaper = translated(price_sentences(call, clouds=covers_clouds(document))[-1], t)
        yield _PRICE, Facts([(t("brief.price"), cheaper)])
    if api := (spec.get("cost") or {}).get("api"):
        usd = spec["price"]["total_usd_per_hour"]
        yield _NEEDED, Facts([(t("brief.api"), translated(api_message(api, usd), t))])
    for number, other in enumerate(other_kinds(document)[:2]):
        title = "" if number else t("brief.take")
        yield (1 if number else _TAKE), Facts([(title, _other(other, document, t))])
    if smaller := [step for step in document.get("serving", {}).get("steps", ()) if step.get("instead")]:
        least = min(smaller, key=lambda step: step["instead"]["total_usd_per_hour"])
        text = t("brief.smaller", option=least["option"], spec=instead_text(least))
        yield _TAKE, Facts([(t("brief.shrink"), text)])
    yield _PRICE if spec.get("serving") else 3, Facts([(t("brief.assumed"), _assumed(document, t, spell))])
    # The risk counts what lies outside of what was measured.
    beside = [text for text in document["warnings"] if text not in spec["extrapolation"]]
    if beside:
        # Spot may be taken back in the midst of the work: that comes first.
        beside.sort(key=lambda text: getattr(text, "code", None) != Market.SPOT)
        usual = _BINDS if spec.get("serving") else _WARNS
        rank = _NEEDED if spec["market"] == Market.SPOT else usual
        yield rank, Paragraph(" ".join(wrapped("Warning", [translated(text, t) for text in beside], 2)))
    # How sure it is stands above.
    yield _NEEDED, Paragraph(basis_sentence(spec, t, has_risk=False), "note")


def _machine(spec: Record, request: Record, t: Texts) -> str:
    """'1 x L40S 45 GiB, 4 vCPUs (2 cores), 32 GiB RAM; vLLM 0.18, bf16, 1 replica on 1 GPU'; with what
    drafts tokens."""
    machine, serving = translated(machine_message(spec, decodes=False), t), spec.get("serving")
    parts = [machine if spec["count"] == 1 else t("brief.each", machine=machine)]
    if serving:
        engine = f"{ENGINES.get(serving['engine'], serving['engine'])} {serving['engine_version']}"
        placed = translated(placement_message(serving["placement"]), t)
        formats = [serving["precision"]]
        if serving["kv_precision"] != serving["precision"]:
            formats.append(t("brief.kv", format=serving["kv_precision"]))
        drafts = speculation_message(request)
        parts.append(", ".join([engine, *formats, placed, *([translated(drafts, t)] if drafts else [])]))
    return t.listed(parts)


def _rate(spec: Record, request: Record, t: Texts) -> str:
    """The rate with its bound and what a request waits, then the time and cost of the run, or the cost of a
    million."""
    predicted = spec["predicted"]
    rates, unit, confidence = predicted["throughput"], predicted["unit"], predicted["confidence"]
    median, lower = format_rate(rates["median"]), lower_rate(rates["lower"])
    rate = f"{median} {t.known(f'unit.{unit}', unit)}"
    if lower != median:  # what arrives by itself is the rate at any bound
        percent = plain(100 * confidence)
        rate = t("brief.rate", median=rate, percent=percent, lower=lower, p10=lower_name(confidence))
    run, serving, cost = spec.get("run"), spec.get("serving"), spec.get("cost")
    if run:
        p90 = upper_name(confidence)
        hours = _span(run["hours"], format_hours, p90, t)
        return t("brief.run", rate=rate, hours=hours, usd=_run_cost(run, p90, t))
    latency = [", ".join(times)] if (times := list(_times(spec, request, t))) else []
    of = "output_tokens" if serving else "samples"
    per = "brief.tokens" if serving else "brief.samples"
    if cost and "api" in cost:  # an API's price is of tokens in and out
        of, per = "tokens", "brief.both"
    usd = cost and cost[f"usd_per_million_{of}"]
    usd = usd["median"] if serving and usd else usd
    return t.listed([rate, *latency, *([t(per, usd=format_usd(usd))] if usd is not None else [])])


def _times(spec: Record, request: Record, t: Texts, *, is_other: bool = False) -> Iterator[str]:
    """'p99 of a batch 48 ms', where that is limited; of a served model 'TTFT 256 ms (p95 1.47 s)': the means,
    and the percentiles and times that the question limits. Of an other spec only these, if any."""
    is_limited = is_other and any(request.get(option) is not None for _, _, option in TIMES)
    latency: Record = spec.get("latency") or {"p99_ms": None}
    if latency["p99_ms"] is not None and request["max_latency_ms"] is not None:
        yield t(
            "brief.batch_other" if is_other else "brief.batch_time",
            p99=f"{ceil_ms(P99_OVER_P50 * latency['p50_ms'] / 1000):,g}\u00a0ms",
            percent=percent(spec["predicted"]["confidence"]),
            most=f"{ceil_ms(latency['p99_ms'] / 1000):,g}",
        )
    serving: Record = spec.get("serving") or {}
    for name, title, option in TIMES if serving else ():
        limit = request.get(option)
        if limit is None and (is_limited or name == "e2e"):
            continue
        if name == "tpot" and serving["output_tokens"] <= 1:
            continue
        field = f"{name}_seconds"
        mean = seconds_text(serving["rates"][field]["median"])
        which, of_requests, _ = str(limit).partition(":")
        if of_requests and which in serving["percentiles"][field]:
            mean += f" ({which} {seconds_text(serving['percentiles'][field][which]['median'])})"
        yield f"{title} {mean}".replace(" ", "\u00a0")


def _span(span: Record, write: Callable[..., str], p90: str, t: Texts) -> str:
    upper = "?" if span["upper"] is None else write(span["upper"], up=True)
    return t("brief.span", median=write(span["median"]), p90=p90, upper=upper)


def _run_cost(run: Record, p90: str, t: Texts) -> str:
    """'$48.19 (p90 $87.40)'; of a price that is not sure also what the run may cost at its upper end."""
    usd, most = run["usd"], most_by_price(run)
    if most is None:
        return _span(usd, run_usd_text, p90, t)
    median, upper = run_usd_text(usd["median"]), run_usd_text(usd["upper"], up=True)
    return t("brief.span_price", median=median, p90=p90, upper=upper, most=run_usd_text(most, up=True))


def binding_facts(spec: Record, t: Texts) -> Iterator[tuple[str, str]]:
    """The stage that holds the rate back, and the one that would do so next."""
    if not spec.get("bottleneck"):
        return
    text, used = bound_name(spec, t), spec.get("utilization", {})
    others = sorted((share, stage) for stage, share in used.items() if stage != spec["bottleneck"])
    if others and others[-1][0] >= 0.01:  # what is used less says nothing
        share, stage = others[-1]
        second = stage_name(stage, t, on_cpu=spec["gpu"] is None)
        text = t("brief.next", first=text, second=second, share=f"{100 * share:.0f}")
    yield t("brief.bound"), text


def sure_leaves(document: Record, t: Texts) -> Iterator[tuple[int, Leaf]]:
    """How sure the answer is, its trial, and what is safe; else a cheaper spec that may do."""
    sentences = [translated(sentence, t) for sentence in decision_of(document).get("sentences", ())]
    if sentences:
        yield _NEEDED, Facts([(t("brief.sure"), t.listed(sentences))])
    others = borderline_calls(document)
    yield from ((0, Command(call["trial"]["command"])) for call in calls_of_chosen(document))
    if others:
        target = document["request"].get("target_throughput")
        sentence = borderline_sentence(others[0], target, t, clouds=covers_clouds(document))
        yield 2, Facts([(t("brief.try"), f"{sentence[:-1]}{t('brief.stop')}")])
        yield 0, Command(others[0]["trial"]["command"])


def trial_leaves(document: Record, t: Texts) -> Iterator[Paragraph | Command]:
    """The trials that settle an answer, each with what it tries."""
    clouds = covers_clouds(document)
    for key, calls in (("next.trial", calls_of_chosen(document)), ("next.other", borderline_calls(document))):
        for call in calls:
            yield Paragraph(t(key, name=type_name(call, clouds=clouds)))
            yield Command(call["trial"]["command"])


def other_kinds(document: Record) -> Sequence[Record]:
    """The first alternatives with another GPU, cloud or market each, or one instance for several, else the
    first ones; without those that nobody takes instead (`_is_behind`), and without the safe spec, which
    stands above, where there are others."""
    chosen = document["recommendation"]
    others = [each for each in document["alternatives"] if not _is_behind(each, chosen)]
    safe = decision_of(document).get("safe") or {}
    first: dict[Any, Record] = {}
    for each in (chosen, *others):
        kind = each["gpu"] and each["gpu"]["name"], each["cloud"], each["market"], each["count"] > 1
        first.setdefault(kind, each)
    new = [each for each in others if any(each[name] != safe.get(name) for name in _OF_A_SPEC)]
    return [each for each in list(first.values())[1:] if each in new] or new or others


def _is_behind(spec: Record, chosen: Record) -> bool:
    """Whether nobody takes it instead: it is less sure, which a lower price does not mend and a higher rate
    has to; or it is no cheaper at less than half of the rate."""
    usd, enough_usd = map(_usd, (spec, chosen))
    rate, enough = (each["predicted"]["throughput"] for each in (spec, chosen))
    if None not in (spec["probability"], chosen["probability"]):
        is_less_sure = modest(spec["probability"]) < modest(chosen["probability"])
        if is_less_sure and (usd < enough_usd or rate["median"] <= enough["median"]):
            return True
    return bool(usd >= enough_usd and rate["lower"] < _LEAST_SHARE * enough["lower"])


def _usd(spec: Record) -> float:
    """What a spec costs: the run, if there is one, else an hour."""
    run = spec.get("run")
    return float(run["usd"]["median"] if run and run["usd"] else spec["price"]["total_usd_per_hour"])


def _other(spec: Record, document: Record, t: Texts) -> str:
    """'g6.2xlarge (L4) $0.978/h, 1,110 images/s, batch 16, p99 of a batch 48 ms, 71 % sure'; of a run its
    hours and its cost. The batch size is told where it is not the chosen one's."""
    clouds = covers_clouds(document)
    place = f" {place_name(spec, clouds=clouds)}" if clouds else ""
    market = t.known(f"market.{spec['market']}", spec["market"])
    place += f", {market}" if document["request"]["market"] == "any" else ""
    gpu = " ({})".format(re.split("-| Blackwell", spec["gpu"]["name"])[0]) if spec["gpu"] else ""
    usd = format_usd(spec["price"]["total_usd_per_hour"])
    run, predicted, chance = spec.get("run"), spec["predicted"], spec["probability"]
    batch = spec.get("batch_size")
    says = [f"{spec_name(spec)}{place}{gpu} {usd}/h"]
    if run and run["usd"]:
        says += [format_hours(run["hours"]["median"]), format_usd(run["usd"]["median"])]
    else:
        unit, rates = t.known(f"unit.{predicted['unit']}", predicted["unit"]), predicted["throughput"]
        rate = f"{format_rate(rates['median'])} {unit}"
        p10 = {"p10": lower_name(predicted["confidence"]), "lower": lower_rate(rates["lower"])}
        says.append(rate if chance is not None else t("brief.unaimed", rate=rate, **p10))
    if batch != document["recommendation"].get("batch_size"):
        says.append(t("limit.batch_size", value=batch))
    says += _times(spec, document["request"], t, is_other=True)
    if chance is not None:
        says.append(t("brief.likely", percent=percent(modest(chance))))
    return t("brief.comma").join(says)


def _counted(request: Record, t: Texts) -> str | None:
    """The samples of a data set that decide: how long its epochs are, or the disk of what is served."""
    dataset = request["dataset"]
    name, samples = str(dataset["name"]), f"{dataset['samples']:,}"
    if request["task"] == Task.INFERENCE and name == IMAGENET.name:
        return t("brief.on_disk", samples=samples, name=name)
    if request.get("epochs") and dataset["kind"] == "tokens":
        return t("brief.counted", samples=samples, name=t.known(f"assumed.{name}", name))
    return None


def _is_given(field: str, request: Record) -> bool:
    """Whether the question itself says what is served: other lengths than the usual ones, another engine."""
    if field == "engine":
        return request.get("engine") != LlmEngine.VLLM
    if not field.endswith("put_tokens") or request.get(field) is None:
        return False
    return bool(request[field] != getattr(traffic_named(USUAL_TRAFFIC), field).mean)


def _assumed(document: Record, t: Texts, spell: Spell) -> str:
    """'imagenet as jpeg-files (--dataset), eager (--stack)'."""
    says, request = [], document["request"]
    for field in _ASSUMED:
        value = None if _is_given(field, request) else request.get(field)
        if value and (field != "protocol" or request["task"] == Task.TRAINING):
            if isinstance(value, Mapping):
                stored = t("brief.stored", name=value["name"], format=value.get("storage_format", ""))
                name = str(value["name"])
                of_own = name == IMAGENET.name and value["samples"] != IMAGENET.samples
                stored = t("brief.like", name=name) if of_own else stored
                value = stored if value["kind"] == "image" else t.known(f"assumed.{name}", name)
            written = value if isinstance(value, str) else f"{value:,.0f}"
            text = t.known(f"assumed.{field}", "{value}")
            option = _CHANGED_BY.get(field, field)
            if isinstance(value, str) and field == "dataset" and (counted := _counted(request, t)):
                written, option = counted, "dataset_samples"
            says.append(f"{text.format(value=written)} ({spell(option)})")
    if request.get("users") and not request.get("think_seconds"):
        says.append(f"{t('assumed.always')} ({spell('think_seconds')})")
    if any(getattr(text, "code", "") == NO_PICTURES for text in document["assumptions"]):
        says.append(f"{t('assumed.no_pictures')} ({spell('images_per_request')})")
    return ", ".join(says)
