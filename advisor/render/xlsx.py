"""Writes a report as XLSX: plain tables of the document's values, the same bytes for the same document.

`sheets.json` lists the sheets with the path of each column. Its headings never change, because other programs
read columns by them. XlsxWriter dates every part of the archive 1980-01-01; the date in the properties is the
report's. Texts are always written as texts, never as formulas."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from advisor.domain import Stage
from advisor.render.facts import (
    ANSWERED,
    decision_of,
    is_committed,
    month_usd,
    most_run_usd,
    run_usd,
    section_run_usd,
    usd_per_million_samples,
)
from advisor.render.i18n.catalogue import Texts, report_texts, workbook_texts
from advisor.render.records import same_paths
from advisor.render.sentences import LOCAL_ORDER, disk_name, relax_sentence, stage_name
from advisor.render.tables import FRONT, SERVING, TUNING, columns_of_task, flat_rows, ranked_rows, value_at
from advisor.render.views.totals import target_text, totals_sentences

if TYPE_CHECKING:
    import pandas as pd

Record = Mapping[str, Any]
_SHEETS = Path(__file__).with_name("sheets.json")
_OPTIONS = {
    "in_memory": True,
    "strings_to_formulas": False,
    "strings_to_numbers": False,
    "strings_to_urls": False,
}
# Excel's number format: the first whose text is in the heading.
_FORMATS = (
    ("USD/month", "#,##0.00"),
    ("USD/run", "#,##0.00"),
    ("USD", "#,##0.0000"),
    ("samples/s", "#,##0.0"),
    ("Sure", "0%"),
    ("(%)", "0.0"),
)
_STAGES = ("Bottleneck", "Stage", "Bottleneck then")
_DAYS = ("Price of", "Of", "Measured on")
# Characters that XML does not allow; XlsxWriter escapes the other control characters.
_UNFIT = re.compile("[\ud800-\udfff\ufffe\uffff]")
# Excel's limit for a cell.
_MOST_CHARACTERS = 32767
# Columns of the sheets that only language models have, by kind of row.
_OF_TASK = {"serving": SERVING, "front": FRONT, "tuning": TUNING}
_NARROWEST, _WIDEST = 12, 60
_HEAD_ROW = 4
# What the CSV has about a workload in addition to the first sheet.
_FURTHER = {
    **same_paths("task model", "answer."),
    **same_paths("cloud gpu.name gpu.count gpu.memory_mib vcpus physical_cores memory_mib", "spec."),
    **same_paths("batch_size precision memory_format", "spec."),
    **same_paths("safe.instance_type safe.market safe.total_usd_per_hour safe.probability"),
    **{"run_hours": "spec.run_hours"},
    **same_paths("runs_per_month trial_command command"),
}


# How headings write parts of a field's name.
_SPELT = {
    **{name: name.upper() for name in ("ttft", "tpot", "e2e", "usd", "gpu", "kv")},
    **{"vcpus": "vCPUs", "gib": "GiB", "mib": "MiB"},
}


def _in_words(field: str) -> str:
    """'TTFT seconds lower' for `ttft_seconds_lower`."""
    words = " ".join(_SPELT.get(word, word) for word in field.split("_"))
    return words[0].upper() + words[1:] if field.split("_")[0] not in _SPELT else words


class Sheet(NamedTuple):
    """A table with headings; `note`, above it, says what it contains."""

    name: str
    note: str
    headings: Sequence[str]
    rows: Sequence[Sequence[Any]]


def report_workbook(document: Record, language: str = "en") -> bytes:
    """Return the workbook: totals first, then costs, the data of every chart, and facts. Headings, notes and
    bottlenecks are in `language`; other cells are names, or codes that programs filter by."""
    import pandas as pd  # takes half a second, with XlsxWriter

    buffer, texts, words = io.BytesIO(), workbook_texts(language), report_texts(language)
    created = datetime.combine(date.fromisoformat(document["as_of"]), datetime.min.time())
    first, *others = sheets_of(document)
    with pd.ExcelWriter(
        buffer, engine="xlsxwriter", date_format="yyyy-mm-dd", engine_kwargs={"options": _OPTIONS}
    ) as writer:
        writer.book.set_properties({"title": _fit(document["title"])[:200], "created": created})
        page = _write(writer, first, document["title"], document["as_of"], texts, words)
        _write_totals(page, first, document, texts, words)
        for sheet in others:
            _write(writer, sheet, texts.known(sheet.name, sheet.name), document["as_of"], texts, words)
    return buffer.getvalue()


def _write(writer: pd.ExcelWriter, sheet: Sheet, title: str, day: str, texts: Texts, words: Texts) -> Any:
    import pandas as pd

    name, book = texts.known(sheet.name, sheet.name), writer.book
    headings = [texts.known(heading, heading) for heading in sheet.headings]
    rows = [
        [_cell(value, heading, words) for value, heading in zip(row, sheet.headings, strict=True)]
        for row in sheet.rows
    ]
    frame = pd.DataFrame(rows, columns=headings, dtype=object)
    frame.to_excel(writer, sheet_name=name, startrow=_HEAD_ROW, index=False)
    page = writer.sheets[name]
    page.write_string(0, 0, _fit(title), book.add_format({"bold": True, "font_size": 14}))
    page.write_string(1, 0, f"{day}  {texts.known(sheet.note, sheet.note)}")
    for column, heading in enumerate(sheet.headings):
        values = [row[column] for row in rows]
        # An editor would turn text that looks like a formula into one; keep it text.
        written = [value for value in values if isinstance(value, str)]
        look = {"num_format": _form(heading, values), "quote_prefix": bool(written)}
        width = max(_NARROWEST, *(len(value) + 2 for value in written), 0)
        page.set_column(column, column, min(width, _WIDEST), book.add_format(look))
    page.freeze_panes(_HEAD_ROW + 1, 1)
    page.autofilter(_HEAD_ROW, 0, _HEAD_ROW + len(rows), len(headings) - 1)
    page.set_landscape()
    page.fit_to_pages(1, 0)
    return page


def _write_totals(page: Any, sheet: Sheet, document: Record, texts: Texts, words: Texts) -> None:
    """Write the sums below the picks, then sentences about them and what they are based on, one per line."""
    totals, line = document["totals"], _HEAD_ROW + len(sheet.rows) + 1
    sums = {
        "Instances": totals["instances"],
        # Hourly costs of workloads kept running and of runs cannot be added.
        "USD/hour": None if totals["run_usd"] else totals["usd_per_hour"],
        "USD/month": totals.get("month_with_runs_usd") or totals["month_usd"],
        # Nobody pays the sum of one run each if some run more often.
        "USD/run": None if "month_with_runs_usd" in totals else totals["run_usd"],
    }
    page.write_string(line, 0, texts("Total"))
    for heading, value in sums.items():
        page.write(line, sheet.headings.index(heading), value)
    for number, sentence in enumerate(totals_sentences(document, words), line + 2):
        page.write_string(number, 0, _fit(sentence))


def sheets_of(document: Record) -> list[Sheet]:
    """Return every sheet, in the order of a reader's likely questions; the first has the totals. Sheets that
    only language models have are left out if empty."""
    totals, *layouts = _layouts()
    sheets = [_sheet(totals, totals["columns"], _picks(document))]
    for layout in layouts:
        kind = layout["rows"]
        rows = [
            {"workload": section["name"], **_bound(record, section)}
            for section in document["workloads"]
            for record in _records(section, kind)
        ]
        columns = {"Workload": "workload", **layout.get("columns", {})}
        if kind in _OF_TASK:
            columns = {_in_words(name): name for name in ("workload", *_OF_TASK[kind])}
        if rows or kind not in _OF_TASK:
            sheets.append(_sheet(layout, columns, rows))
    facts = [{"what": name, "value": value} for name, value in _flat(document["reproducibility"])]
    last = {"name": "Reproducibility", "note": "Versions, digests, and the command."}
    return [*sheets, _sheet(last, {"What": "what", "Value": "value"}, facts)]


def pick_rows(document: Record) -> list[dict[str, Any]]:
    """Return a flat record per workload: the values of the first sheet, named as in the document, and some
    more that help planning in a spreadsheet."""
    paths = {path.rpartition(".")[2]: path for path in _layouts()[0]["columns"].values()}
    rows = flat_rows(_picks(document), paths | _FURTHER)
    return [{"part": "summary", "workload": row.pop("name"), **row} for row in rows]


@cache
def _layouts() -> list[dict[str, Any]]:
    layouts: list[dict[str, Any]] = json.loads(_SHEETS.read_text(encoding="utf-8"))
    return layouts


def _picks(document: Record) -> list[Record]:
    """Return every section with its pick; if nothing meets the target, the pick is None and adds nothing."""
    hours, t = document["totals"]["hours_per_month"], report_texts("en")
    return [
        {
            **row,
            "spec": _pick(row, hours),
            "target": target_text(row, t),
            "safe": decision_of(row["recommendation"]).get("safe"),
        }
        for row in document["workloads"]
    ]


def _pick(section: Record, hours: float) -> Record | None:
    """Return the recommended spec with its chance and its cost, per month of `hours` or per run."""
    answer = section["recommendation"]
    spec, run = answer["recommendation"], run_usd(answer["recommendation"])
    if section["answer"]["status"] != ANSWERED:
        return None
    month = {"usd_per_month": month_usd(section)}
    ends: dict[str, float | None] = {"hours": section.get("hours_per_month", hours)}
    if run is not None:
        hours, often = spec["run"]["hours"]["median"], section.get("runs_per_month")
        ends = {"run_usd": run, "most_usd": most_run_usd(spec), "run_hours": hours}
        ends |= {"hours": hours * often} if often else {}
    sure = {"probability": decision_of(answer).get("probability")}
    return _bound({**section["answer"]["spec"], **sure, **month, **ends}, section)


def _bound(record: Record, section: Record) -> Record:
    """Return a record in which the GPU stage is called 'cpu' if the machine, or the section's, has no GPU."""
    if record.get("gpu", (section["answer"]["spec"] or {}).get("gpu")) is not None:
        return record
    cpu = {name: "cpu" for name in ("stage", "bottleneck") if record.get(name) == Stage.ACCELERATOR}
    return {**record, **cpu}


def _sheet(layout: Record, columns: Mapping[str, str], records: Sequence[Record]) -> Sheet:
    rows = [[value_at(record, path) for path in columns.values()] for record in records]
    return Sheet(layout["name"], layout["note"], list(columns), rows)


def _records(section: Record, rows: str) -> Iterable[Record]:
    """Return a section's records for a sheet: built from several parts, or found at a path."""
    answer = section["recommendation"]
    if rows == "stages":
        stages = value_at(section, "bottleneck.stages") or ()
        return [{**stage, "used_percent": 100 * stage["utilization"]} for stage in stages]
    if rows == "batches":
        card = section["gpu_memory"] or {"batches": ()}
        return [
            {**card, **row, "used_percent": 100 * row["needed_mib"] / card["has_mib"]}
            for row in card["batches"]
        ]
    if rows == "ranked":
        ranked = [spec for spec in (answer["recommendation"], *answer["alternatives"]) if spec]
        return [
            {**spec, "place": rank, "usd_per_million_samples": usd_per_million_samples(spec)}
            for rank, spec in enumerate(ranked, start=1)
        ]
    if rows == "front":
        return flat_rows(value_at(answer, "serving.front") or (), FRONT)
    if rows in ("costs.choices", "regions"):
        return list(_paid(section, value_at(section, rows) or ()))
    if rows == "price_throughput":
        least = section["answer"]["target_throughput"] or 0.0
        return [{**row, "answers": row["answers"] and row["lower"] >= least} for row in section[rows]]
    if rows in _OF_TASK:
        return ranked_rows(answer) if columns_of_task(answer) is _OF_TASK[rows] else ()
    made = {"measurements": _measurements, "notes": _notes}.get(rows)
    return made(section) if made else value_at(section, rows) or ()


def _paid(section: Record, choices: Iterable[Record]) -> Iterator[Record]:
    """Yield the pick at other markets or places; for runs, with the cost of a run and of a month's planned
    runs, and without yearly commitments."""
    run, often = section_run_usd(section), section.get("runs_per_month")
    for row in choices:
        usd_per_hour = row.get("total_usd_per_hour", row["usd_per_hour"])
        if run is None:
            yield row
        elif not is_committed({"market": None, **row}):
            usd = usd_per_hour and run * usd_per_hour / section["answer"]["spec"]["usd_per_hour"]
            yield {**row, "run_usd": usd, "usd_per_month": usd and often and usd * often}


def _measurements(section: Record) -> list[Record]:
    drawn = {
        f"over_{name}": set(value_at(section, f"curves.{name}.measured") or ())
        for name in ("vcpus", "memory", "disk")
    }
    return [
        {**row, **{name: row["trial_id"] in ids for name, ids in drawn.items()}}
        for row in section["measured"]
    ]


def _notes(section: Record) -> list[Record]:
    answer, t = section["recommendation"], report_texts("en")
    kinds = {
        "warning": answer["warnings"],
        "assumption": answer["assumptions"],
        "relax": [relax_sentence(relaxation, answer["request"], t) for relaxation in answer["relax"]],
        "command": [section["command"]] if section["command"] else [],
    }
    return [{"kind": kind, "text": text} for kind, texts in kinds.items() for text in texts]


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _flat(part, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list):
        for number, part in enumerate(value, start=1):
            yield from _flat(part, f"{name}.{number}")
    else:
        yield name, value


def _cell(value: Any, heading: str, words: Texts) -> Any:
    """Return a value for a cell: a day or a stage's name if the heading calls for it, else text that fits."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if heading in _STAGES:
        return stage_name(value, words)
    if value == LOCAL_ORDER:
        return disk_name(value, words)
    return date.fromisoformat(value) if heading in _DAYS else _fit(str(value))


def _form(heading: str, values: Sequence[Any]) -> str:
    usual = "#,##0.00" if any(isinstance(value, float) for value in values) else "#,##0"
    return next((form for part, form in _FORMATS if part in heading), usual)


def _fit(text: str) -> str:
    fit = _UNFIT.sub("?", text)
    return fit if len(fit) <= _MOST_CHARACTERS else fit[: _MOST_CHARACTERS - 2] + " \u2026"
