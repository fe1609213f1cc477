"""The tables of a workload in Markdown, folded away where a page can fold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from advisor.render.i18n.catalogue import Texts
from advisor.render.i18n.filters import lower_rate, percent, plain
from advisor.render.sizing.markdown_cells import (
    md_block,
    md_code,
    md_folded,
    md_table,
    md_text,
)
from advisor.render.sizing.sentences import days_old, disk_name, gpu_name, spec_name, stage_name
from advisor.units import format_mib, format_rate, format_usd

Document = Mapping[str, Any]
_SPECS, _REGIONS, _REJECTED, _TURNS = 12, 8, 8, 4
# Gains of less than this are nothing, as `explaining` has it.
_NOTHING_PERCENT = 0.05


def details(section: Document, t: Texts) -> Iterator[str]:
    """Every table that has rows."""
    tables = (
        ("stages.title", _stages(section, t)),
        ("sensitivity.title", _sensitivity(section, t)),
        ("price.title", _specs(section, t)),
        ("break.title", _turns(section, t)),
        ("memory.title", _memory(section, t)),
        ("regions.title", _regions(section, t)),
        ("rejected.title", _rejected(section, t)),
        ("evidence.title", _evidence(section, t)),
        ("ages.title", _ages(section, t)),
    )
    for title, content in tables:
        if content:
            yield md_folded(md_text(t(title)), content)


def again(block: Document, t: Texts) -> Iterator[str]:
    """What gives the same report again."""
    catalog, model, rows = block["catalog"], block["performance_model"], block["measurements"]
    versions = ", ".join(f"{name} {value}" for name, value in block["versions"].items())
    model_said = t(
        "again.model_value",
        id=model["id"], trained=t.render(model["trained_on"]),
        error=plain(model["error_percent"]), sha=model["sha256"],
    )  # fmt: skip
    said = [
        ("catalog", t("again.catalog_value", date=catalog["as_of"], sha=catalog["sha256"])),
        ("model", model_said),
        ("measurements",
         t("again.measurements_value", rows=rows["rows"], sha=rows["bundled_sha256"])),
        ("versions", versions),
        *(("inputs", f"{one['name']}, sha256 {one['sha256']}") for one in block["inputs"]),
    ]  # fmt: skip
    yield f"## {md_text(t('again.title'))}"
    yield md_block(block["command"], "sh")
    yield "\n".join(f"- {md_text(t(f'again.{name}'))}: {md_text(text)}" for name, text in said)


def _stages(section: Document, t: Texts) -> str:
    rows = [
        [
            md_text(stage_name(one["stage"], t)),
            format_rate(one["samples_per_second"]),
            percent(one["utilization"]),
        ]
        for one in (section["bottleneck"] or {"stages": ()})["stages"]
    ]
    return _table(("stage", "alone", "used"), rows, t, right=(1, 2))


def _sensitivity(section: Document, t: Texts) -> str:
    rows = [
        [
            md_text(t.render(one["step"])),
            _brings(one, t),
            md_text(stage_name(one["bottleneck"], t)),
            _flat(one, t),
        ]
        for one in section["sensitivity"]
    ]
    return _table(("resource", "brings", "bound", "flat"), rows, t)


def _brings(one: Document, t: Texts) -> str:
    rate = one["samples_per_second"]
    if abs(one["percent"]) < _NOTHING_PERCENT:
        return md_text(t("sensitivity.nothing"))
    if rate < 0:
        return md_text(f"\u2212{format_rate(-rate)}/s (\u2212{format_rate(-one['percent'])} %)")
    share = format_rate(one["percent"])
    return md_text(t("sensitivity.brings", rate=format_rate(rate), percent=share))


def _flat(one: Document, t: Texts) -> str:
    if one["resource"] not in ("vcpus", "memory"):
        return ""
    amount = one["flat_after"]
    if amount is None:
        return md_text(t("sensitivity.rises"))
    return format_mib(amount) if one["unit"] == "mib" else plain(amount)


def _specs(section: Document, t: Texts) -> str:
    """The pick, what answers, and the front; the data formats have them all."""
    drawn = section["price_throughput"]
    ordered = sorted(drawn, key=lambda o: (not o["chosen"], not o["answers"], not o["on_front"]))
    rows = [
        [
            f"**{md_text(spec_name(one))}**" if one["chosen"] else md_text(spec_name(one)),
            md_text(gpu_name(one, t)),
            md_text(disk_name(one["disk"], t)),
            format_usd(one["total_usd_per_hour"]),
            lower_rate(one["lower"]),
            format_rate(one["median"]),
            format_rate(one["upper"]),
            format_usd(one["usd_per_million_samples"]),
            md_text(stage_name(one["bottleneck"], t)),
        ]
        for one in ordered[:_SPECS]
    ]
    names = (
        "instance", "gpu", "disk", "per_hour", "lower", "median", "upper", "per_million", "bound",
    )  # fmt: skip
    return _and_more(_table(names, rows, t, right=(3, 4, 5, 6, 7)), len(drawn) - len(rows), t)


def _turns(section: Document, t: Texts) -> str:
    turns = section["break_even"]
    near = next((at for at, one in enumerate(turns) if one["of_chosen"]), 0)
    rows = [
        [
            md_text(spec_name(one["cheaper"])),
            md_text(spec_name(one["dearer"])),
            lower_rate(one["at_samples_per_second"]),
            md_text(_pays(one, t)),
        ]
        for one in turns[max(0, near - 1) :][:_TURNS]
    ]
    return _table(("cheaper", "dearer", "turns", "pays"), rows, t, right=(2,))


def _pays(one: Document, t: Texts) -> str:
    verdict = t("break.yes" if one["dearer_pays_now"] else "break.no")
    even = format_usd(one["dearer_pays_below_usd_per_hour"])
    now = format_usd(one["dearer"]["total_usd_per_hour"])
    return t("break.pays", usd=even, now=now, verdict=verdict)


def _memory(section: Document, t: Texts) -> str:
    block = section["gpu_memory"]
    if block is None:
        return ""
    rows = [
        [
            f"**{one['batch_size']}**" if one["chosen"] else str(one["batch_size"]),
            format_mib(one["needed_mib"]),
            md_text(t("yes" if one["fits"] else "no")),
            lower_rate(one["reached"]["lower"]) if one["reached"] else "",
        ]
        for one in block["batches"]
    ]
    has = md_text(t("memory.has", name=block["gpu"], has=format_mib(block["has_mib"])))
    return f"{has}\n\n" + _table(("batch", "memory", "fits", "lower"), rows, t, right=(0, 1, 3))


def _regions(section: Document, t: Texts) -> str:
    places = section["regions"]
    rows = [
        [
            f"**{md_text(one['region'])}**" if one["chosen"] else md_text(one["region"]),
            _usd(one["total_usd_per_hour"], t),
            _usd(one["usd_per_month"], t),
            md_text(t.known("kind." + one["kind"], one["kind"])),
            one["as_of"],
        ]
        for one in places[:_REGIONS]
    ]
    names = ("region", "per_hour", "per_month", "kind", "as_of")
    return _and_more(_table(names, rows, t, right=(1, 2)), len(places) - len(rows), t)


def _usd(usd: float | None, t: Texts) -> str:
    return md_text(t("unknown")) if usd is None else format_usd(usd)


def _rejected(section: Document, t: Texts) -> str:
    """How many for which reason, and the nearest of them."""
    answer = section["recommendation"]
    counts = answer["catalog"]["rejected_by_reason"]
    if not counts:
        return ""
    told_counts = [
        [md_text(t.known(f"reason.{reason}", reason)), f"{count:,}"]
        for reason, count in counts.items()
    ]
    rows = [
        [
            md_text(one["instance_type"]),
            "" if one["usd_per_hour"] is None else format_usd(one["usd_per_hour"]),
            md_text(t.known("reason." + one["reason"], one["reason"])),
            md_text(t.render(one["detail"])),
        ]
        for one in answer["rejected"][:_REJECTED]
    ]
    few = _table(("instance", "per_hour", "reason", "detail"), rows, t, right=(1,))
    more = answer["catalog"]["offers_rejected"] - len(rows)
    return _table(("reason", "count"), told_counts, t, right=(1,)) + (
        f"\n\n{_and_more(few, more, t)}" if few else ""
    )


def _evidence(section: Document, t: Texts) -> str:
    rows = [
        [
            md_text(stage_name(one["stage"], t)),
            md_text(t.render(one["detail"])),
            md_text(t("yes" if one["inside"] else "no")),
        ]
        for one in section["evidence"]
    ]
    return _table(("stage", "what", "matters"), rows, t)


def _ages(section: Document, t: Texts) -> str:
    rows = [
        [
            md_text(t("age." + one["what"])),
            one["as_of"],
            md_text(days_old(one, t)),
            md_text(t.known("kind." + one["kind"], one["kind"])),
            md_code(one["source"]),
        ]
        for one in section["data_ages"]
    ]
    return _table(("what", "as_of", "age", "kind", "source"), rows, t, right=(2,))


def _table(
    names: Sequence[str], rows: Sequence[Sequence[str]], t: Texts, right: Sequence[int] = ()
) -> str:
    return md_table([t(f"table.{name}") for name in names], rows, right) if rows else ""


def _and_more(table: str, count: int, t: Texts) -> str:
    return f"{table}\n\n{md_text(t('more.rows', count=f'{count:,}'))}" if count > 0 else table
