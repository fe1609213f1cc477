"""The lists of an answer about a language model, for a terminal: what else could be done, latency
against throughput, other specs, close calls, what to relax, and what was rejected."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from datetime import date

from advisor.domain import Change, CloseCallKind
from advisor.domain.decision import AnyCandidate
from advisor.domain.language import (
    FrontPoint,
    GenerationCandidate,
    GenerationRecommendation,
    GenerationRequest,
    ServingStep,
)
from advisor.domain.spec_request import SpecRequest
from advisor.domain.tuning import FineTuningRecommendation
from advisor.naming import place_texts, price_words, rejection_text, spec_name
from advisor.rejections import counted_reasons
from advisor.render.language.phrases import (
    count_text,
    gpus_text,
    seconds_text,
    short_placement_text,
    trial_command,
)
from advisor.render.text import (
    INDENT,
    WIDTH,
    alternatives_title,
    beside,
    fitting_table,
    folded,
    folded_command,
    lower_name,
    lower_text,
    priced_table,
    table,
)
from advisor.units import format_usd

SHOWN_ALTERNATIVES = 3
SHOWN_REJECTED = 2
SHOWN_STEPS = 2
NOTHING_PERCENT = 0.5
_MISSES = {"": "", "limit": ", over a limit", "target": ", below the target"}


def step_lines(steps: Sequence[ServingStep], before: GenerationCandidate) -> list[str]:
    """What one thing more would bring, the most useful first."""
    given = [(step.option, step.gives) for step in steps if step.gives and step.option]
    given.sort(key=lambda one: one[1].usd_per_million_output_tokens.median)
    texts = [_step_text(option, gives, before) for option, gives in given[:SHOWN_STEPS]]
    return folded("could try", texts)


def _step_text(option: str, gives: GenerationCandidate, before: GenerationCandidate) -> str:
    highest, now = (one.most.output_tokens_per_second.median / one.spec.count for one in (gives, before))
    percent = 100 * (highest / now - 1)
    most = f"{percent:+.0f} %" if abs(percent) >= NOTHING_PERCENT else "as before"
    count = ""
    if gives.spec.count != before.spec.count:
        hourly = format_usd(gives.spec.total_usd_per_hour)
        count = f"{gives.spec.name} at {hourly}/h, each with a "
    usd = format_usd(gives.usd_per_million_output_tokens.median)
    return (
        f"{option}: {count}highest rate {most}, TPOT "
        f"{seconds_text(gives.rates.tpot_seconds.median)}, {usd} per million, ready in "
        f"{seconds_text(gives.ready.seconds)}"
    )


def front_lines(
    front: Sequence[FrontPoint], chosen: GenerationCandidate | None, confidence: float
) -> list[str]:
    """Latency against throughput: the fastest answers, what is recommended, the highest rate."""
    if len(front) < 2 or chosen is None:
        return []
    mine = {at for at, point in enumerate(front) if point.rates is chosen.rates}
    shown = [front[at] for at in sorted({0, *mine, len(front) - 1})]
    lower = lower_name(confidence)
    title = f"Latency against throughput ({len(shown)} of {len(front)})"
    header = [title, "in flight", "TTFT", "TPOT", f"{lower} tokens/s", "per 1M out"]
    rows = [
        [
            f"  {short_placement_text(point.placement)}"
            + (", this answer" if point.rates is chosen.rates else _MISSES[point.misses]),
            count_text(point.rates.concurrency),
            seconds_text(point.rates.ttft_seconds.median),
            seconds_text(point.rates.tpot_seconds.median),
            lower_text(point.rates.output_tokens_per_second.lower),
            format_usd(point.usd_per_million_output_tokens.median),
        ]
        for point in shown
    ]
    return ["", *table(header, rows, right=(1, 2, 3, 4, 5))]


def alternative_lines(
    ranked: Sequence[GenerationCandidate], most: int, request: GenerationRequest, today: date
) -> list[str]:
    """`most` but the first, which stands above, without what has no room."""
    shown = ranked[1:most]
    if not shown:
        return []
    title = alternatives_title(len(shown), len(ranked), request.max_results)
    columns = {
        title: [f"  {one.spec.name}" for one in shown],
        "gpu": [gpus_text(one.spec.offer.instance) for one in shown],
        "runs as": [short_placement_text(one.placement) for one in shown],
        "per hour": [format_usd(one.spec.total_usd_per_hour) for one in shown],
        f"{lower_name(request.confidence)} tokens/s": [
            lower_text(one.rates.output_tokens_per_second.lower) for one in shown
        ],
        "TPOT": [seconds_text(one.rates.tpot_seconds.median) for one in shown],
        "per 1M out": [format_usd(one.usd_per_million_output_tokens.median) for one in shown],
        **place_column(ranked[:most], request, today),
    }
    left = (title, "gpu", "runs as", "region")
    return ["", *fitting_table(columns, left, ("runs as", "gpu"))]


def place_column(ranked: Sequence[AnyCandidate], request: SpecRequest, today: date) -> dict[str, list[str]]:
    """Where all but the first stand; nothing where all stand in one place."""
    places = place_texts(ranked, request, today)
    return {"region": places[1:]} if places else {}


def borderline_lines(answer: GenerationRecommendation) -> list[str]:
    """The close call that matters most, and the command of its trial."""
    if not answer.close_calls:
        return []
    call = answer.close_calls[0]
    spec = call.candidate.spec
    chance = call.probability
    name = f"{spec_name(spec, answer.request)} at {format_usd(spec.total_usd_per_hour)}/h"
    sentence = f"{name} may keep this too ({100 * chance:.0f} %)"
    if call.kind is CloseCallKind.CHOSEN_MAY_MISS:
        sentence = f"it may miss this ({100 * (1 - chance):.0f} %)"
    trial = f"about {format_usd(call.trial_usd)}, {call.trial_minutes:.0f} min"
    text = f"{sentence}. One trial settles it ({trial}), then ask again with --anchor:"
    command = folded_command(trial_command(call.candidate), WIDTH - INDENT)
    return beside("borderline", [*textwrap.wrap(text, WIDTH - INDENT), *command])


def relaxation_lines(answer: GenerationRecommendation | FineTuningRecommendation) -> list[str]:
    """What to give up where nothing answers."""
    if not answer.relaxations:
        return []
    rows = [
        [
            f"  {', '.join(map(_change_text, one.changes))}",
            str(spec_name(one.gives.spec, answer.request)),
            format_usd(one.gives.spec.total_usd_per_hour),
        ]
        for one in answer.relaxations
    ]
    gives = [one.gives for one in answer.relaxations]
    prices = price_words(gives, answer.request, answer.today)
    header = ["What would answer", "gives", "per hour"]
    return ["", *priced_table(header, rows, prices, right=(2,))]


def _change_text(change: Change) -> str:
    return f"{change.option} {change.after}" if change.after else f"no {change.option}"


def rejection_lines(
    answer: GenerationRecommendation | FineTuningRecommendation, *, everyone: bool
) -> list[str]:
    """Why cheaper types are not recommended; every type where `everyone`, or nothing answers."""
    shown, chosen = answer.nearest_rejected(), answer.chosen
    if not shown:
        return []
    title = f"Rejected {len(shown):,}: {counted_reasons(answer.rejected_by_reason)}"
    if everyone:
        return ["", title, *(rejection_text(one, answer.request) for one in shown)]
    if chosen is not None:
        limit = chosen.spec.total_usd_per_hour
        shown = [one for one in shown if one.usd_per_hour is not None and one.usd_per_hour < limit]
        title = f"Cheaper, but rejected ({len(shown):,}; nearest in price first)"
    lines = [
        line
        for one in shown[:SHOWN_REJECTED]
        for line in textwrap.wrap(rejection_text(one, answer.request), WIDTH, subsequent_indent="    ")
    ]
    return ["", *textwrap.wrap(title, WIDTH, subsequent_indent="  "), *lines] if lines else []
