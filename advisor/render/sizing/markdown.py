"""A report as Markdown that pastes into a pull request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from advisor.messages import Message
from advisor.render.i18n.catalogue import Texts, report_texts
from advisor.render.i18n.filters import lower_rate, percent
from advisor.render.sizing.markdown_cells import md_block, md_code, md_table, md_text
from advisor.render.sizing.markdown_details import again, details
from advisor.render.sizing.sentences import (
    answer_sentences,
    asked_sentence,
    close_sentence,
    disk_name,
    relax_sentence,
    spec_name,
    stage_name,
    totals_sentence,
)
from advisor.units import format_usd

Document = Mapping[str, Any]
# GitHub takes comments of 65,536 characters: of more workloads, only what is answered is told.
MOST_CHARACTERS = 60_000


def report_markdown(document: Document, language: str) -> str:
    """The whole text; details stay out where it would be too long to paste."""
    t = report_texts(language)
    whole = _text(document, t, brief=False)
    return whole if len(whole) <= MOST_CHARACTERS else _text(document, t, brief=True)


def _text(document: Document, t: Texts, *, brief: bool) -> str:
    blocks = [
        f"# {md_text(t('kicker'))}: {md_text(document['title'])}",
        f"*{md_text(t('as_of', date=document['as_of']))}*",
        *_totals(document, t),
    ]
    for one in document["workloads"]:
        blocks += _section(one, document["totals"]["hours_per_month"], t, brief=brief)
    if brief:
        blocks.append(md_text(t("markdown.brief")))
    blocks += again(document["reproducibility"], t)
    return "\n\n".join(blocks) + "\n"


def _totals(document: Document, t: Texts) -> Iterator[str]:
    """All workloads; of one alone its own section tells it."""
    if len(document["workloads"]) < 2:
        return
    yield f"## {md_text(t('totals.title'))}"
    yield md_text(totals_sentence(document["totals"], t))
    names = ("instance", "disk", "lower", "bound", "per_hour", "per_month")
    head = [t("totals.workload"), *(t(f"table.{name}") for name in names)]
    rows = [_total_row(one, t) for one in document["workloads"]]
    yield md_table(head, [*rows, *_sum_row(document["totals"], t)], right=(3, 5, 6))


def _total_row(section: Document, t: Texts) -> list[str]:
    spec = section["answer"]["spec"]
    if section["answer"]["status"] != "answered":
        return [md_text(section["name"]), md_text(t("totals.none_fits")), "", "", "", "", ""]
    return [
        md_text(section["name"]),
        md_text(spec_name(spec)),
        md_text(disk_name(spec["disk"], t)),
        lower_rate(spec["lower"]),
        md_text(stage_name(spec["bottleneck"], t)),
        format_usd(spec["usd_per_hour"]),
        format_usd(spec["usd_per_month"]),
    ]


def _sum_row(totals: Document, t: Texts) -> list[list[str]]:
    if totals["usd_per_hour"] is None:
        return []
    usd = (format_usd(totals["usd_per_hour"]), format_usd(totals["usd_per_month"]))
    return [[f"**{md_text(t('totals.all'))}**", "", "", "", "", *(f"**{one}**" for one in usd)]]


def _section(section: Document, hours: float, t: Texts, *, brief: bool) -> Iterator[str]:
    answer = section["recommendation"]
    yield f"## {md_text(section['name'])}"
    yield md_text(asked_sentence(section, t))
    first, *others = answer_sentences(section, t, hours)
    yield f"**{md_text(first)}**"
    for one in others:
        yield md_text(one)
    if not section["complete"] and section["answer"]["spec"]:
        yield md_text(t("answer.saved"))
    yield from _relaxing(answer["relax"], t)
    if brief:
        return
    yield from _costs(section["costs"], t)
    yield from _close(answer["close_calls"], t)
    yield from details(section, t)
    yield from _said("warnings.title", answer["warnings"], t)
    yield from _said("assumed.title", answer["assumptions"], t)
    if section["command"]:
        yield f"{md_text(t('again.ask'))}: {md_code(section['command'])}"


def _relaxing(relax: Sequence[Document], t: Texts) -> Iterator[str]:
    if relax:
        yield f"### {md_text(t('relax.title'))}"
        yield _list([relax_sentence(one, t) for one in relax])


def _costs(costs: Document | None, t: Texts) -> Iterator[str]:
    if costs is None or not costs["choices"]:
        return
    yield f"### {md_text(t('costs.title'))}"
    names = ("paying", "per_hour", "per_month", "per_million", "saving", "kind", "as_of")
    rows = [
        [
            _marked(t.known("market." + one["market"], one["market"]), chosen=one["asked"]),
            format_usd(one["usd_per_hour"]),
            format_usd(one["usd_per_month"]),
            format_usd(one["usd_per_million_samples"]),
            percent(one["saving_percent"] / 100) if one["saving_percent"] else "",
            md_text(t.known("kind." + one["kind"], one["kind"])),
            one["as_of"],
        ]
        for one in costs["choices"]
    ]
    yield md_table([t(f"table.{name}") for name in names], rows, right=(1, 2, 3, 4))


def _close(calls: Sequence[Document], t: Texts) -> Iterator[str]:
    for one in calls[:1]:
        yield f"### {md_text(t('close.title'))}"
        yield md_text(close_sentence(one, t))
        yield md_block(one["trial"]["command"], "sh")


def _said(title: str, sentences: Sequence[Message | str], t: Texts) -> Iterator[str]:
    if sentences:
        yield f"### {md_text(t(title))}"
        yield _list([t.render(one) for one in sentences])


def _list(items: Sequence[str]) -> str:
    return "\n".join(f"- {md_text(one)}" for one in items)


def _marked(text: str, *, chosen: bool) -> str:
    return f"**{md_text(text)}**" if chosen else md_text(text)
