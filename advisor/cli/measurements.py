"""`advisor measurements`: lists, checks, exports and imports the stored measurements."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from advisor.cli.printing import print_answer, print_json, tell
from advisor.cli.questions import output_option, question_options
from advisor.cli.sweep_view import stored_measurements, trial_name
from advisor.domain import Measurement, Status
from advisor.errors import DataError
from advisor.files import write_whole
from advisor.messages import format_rate
from advisor.render.text import WIDTH, table
from advisor.runs.stored_rows import MeasurementExport, MeasurementPage
from advisor.sweeps.formats import read_file, to_csv, to_jsonl
from advisor.sweeps.quality.issues import quality_issues

if TYPE_CHECKING:
    from advisor.sweeps.quality.issues import QualityIssue


@click.group()
def measurements() -> None:
    """What was measured, failed trials included. The store is ADVISOR_DATABASE_URL."""


@measurements.command("list")
@question_options(MeasurementPage)
@output_option
def list_(question: MeasurementPage, output: str) -> None:
    """List measurements, one line each, in the order of measuring."""
    from advisor.runs.stored_rows import list_document
    from advisor.sweeps.measurement_store import Stored

    wanted = question.wanted()
    with stored_measurements(wanted) as rows:
        if output == "json":
            print_json(list_document(Stored(tuple(rows), ()), spread=question.spread))
            return
        header = ("trial", "what", "samples/s", "status", "limited by", "started")
        cells = [
            (
                row.trial.trial_id[:8],
                trial_name(row.trial),
                "-" if (rate := row.throughput_samples_per_second) is None else format_rate(rate),
                row.status.value.replace("_", " "),
                row.limited_by.value,
                row.started_at[:16].replace("T", " "),
            )
            for row in rows
        ]
        nothing = "Nothing like that." if wanted else "Nothing measured yet."
        click.echo("\n".join(table(header, cells, right=(2,))) if rows else nothing)


@measurements.command()
@question_options(MeasurementExport)
@click.option("--out", type=click.Path(path_type=Path), help="File to write.  [default: stdout]")
def export(question: MeasurementExport, out: Path | None) -> None:
    """Write measurements; a file is written as a whole or not at all."""
    with stored_measurements(question.wanted()) as rows:
        text = to_jsonl(rows) if question.format == "jsonl" else to_csv(rows)
        if out is None:
            click.echo(text, nl=False)
            return
        write_whole(out, text)
        tell(f"{len(rows)} measurements written to {out}")


@measurements.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@output_option
def import_(file: Path, output: str) -> None:
    """Take measurements from a JSONL FILE: an export, or what a campaign wrote.

    All good lines are stored together, or none; a second import changes nothing. A line that is no
    measurement is named by its number, and the exit code is 1. A stored row stays, unless its trial failed
    and the file has one that did not."""
    from advisor.runs.stored_rows import import_document
    from advisor.store.measurements import open_store

    read = read_file(file)
    for refused in read.refused:
        tell(f"line {refused.line}: {' '.join(refused.reason.split())}")
    with closing(open_store()) as store:
        done = store.append_all(read.measurements)
    document = import_document(read, done)
    text = (
        f"{document['added']} measurements added, {document['replaced']} replaced failed ones, "
        f"{document['known']} were stored already, {document['repeated']} lines repeat a trial"
    )
    print_answer(output, document, lambda: text)
    if read.refused:
        raise DataError(
            f"{len(read.refused)} of the lines of '{file}' are no measurements", hint="each is named above"
        )


@measurements.command()
@output_option
def check(output: str) -> None:
    """Name weak measurements (wide, few steps, drift, stalls, throttled, old) and what to do about each."""
    from advisor.runs.stored_rows import check_document

    now = datetime.now(UTC)
    with stored_measurements() as rows:
        checked = [(row, quality_issues(row, now)) for row in rows]
        print_answer(output, check_document(checked), lambda: _check_text(checked))


def _check_text(checked: Sequence[tuple[Measurement, Sequence[QualityIssue]]]) -> str:
    if not checked:
        return "Nothing measured."
    lines: list[str] = []
    for row, issues in checked:
        if issues:
            lines.append(f"{row.trial.trial_id[:8]}  {trial_name(row.trial)}")
        for issue in issues:
            text = f"{issue.code.replace('_', ' ')}: {issue.detail}; {issue.advice}"
            lines += textwrap.wrap(text, WIDTH, initial_indent="  ", subsequent_indent="    ")
    last = [f"{sum(bool(issues) for _, issues in checked)} of {len(checked)} measurements are weak."]
    if once := sum(row.status is Status.OK and not row.repeats for row, _ in checked):
        last.append(
            f"{once} have one run: how far their runs differ is taken from repeats of other "
            "trials; sweep run --repeats 3 measures it."
        )
    return "\n".join([*lines, "", *last] if lines else last)
