"""`advisor probe` measures what this machine can do; `advisor doctor` finds its problems and their fixes."""

from __future__ import annotations

import json
import tempfile
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from advisor.cli.printing import print_answer, tell
from advisor.cli.questions import output_option
from advisor.errors import DataError, MeasuringError, UsageError, one_line
from advisor.files import require_writable, system_errors, write_whole
from advisor.render.text import WIDTH, folded, table
from advisor.runs.probing import keep_fingerprint, probe_machine
from advisor.sweeps.probe.session import PARTS, chosen_parts, is_skipped
from advisor.sweeps.probe.showing import headline, not_measured, sections

if TYPE_CHECKING:
    from advisor.runs.doctor import Finding


@click.command()
@click.option("--dry-run", is_flag=True, help="Report only; remove nothing.")
@output_option
def doctor(dry_run: bool, output: str) -> int:
    """Check this machine, clean up after killed sweeps, and say how to fix the rest.

    Cgroups, disk space, /dev/shm, torch, GPU and driver, Ray, database and leases, unsaved
    measurements, the bundled data and the clock. What a running sweep owns is never touched.

    Exit codes: 0 no problem (there may be warnings), 1 a problem.

    \b
    advisor doctor
    advisor doctor --dry-run -o json
    """
    from advisor.runs.doctor import State, document, examine, worst

    findings = examine(keep_leftovers=dry_run)
    print_answer(output, document(findings), lambda: _lines(findings))
    return 1 if worst(findings) is State.PROBLEM else 0


def _lines(findings: Iterable[Finding]) -> Iterator[str]:
    for finding in findings:
        yield _folded(f"{finding.state.value:8} {finding.check:21}", finding.found)
        if finding.advice:
            yield _folded(" " * 30, f"-> {finding.advice}")


def _folded(head: str, words: str) -> str:
    return textwrap.fill(
        head + one_line(words),
        WIDTH,
        subsequent_indent=" " * len(head),
        break_on_hyphens=False,
        break_long_words=False,
    )


@click.command()
@click.option("--quick", is_flag=True, help="Shorter repeats: a quarter of the time.")
@click.option("--disk", type=click.Path(path_type=Path), help="Folder on the disk to measure. [default: .]")
@click.option("--only", metavar="PARTS", help="Parts to run: cpu,decode,ram,disk,gpu,gemm,operations.")
@output_option
@click.option("--out", type=click.Path(path_type=Path), help="Also write the JSON to a file.")
def probe(quick: bool, disk: Path | None, only: str | None, output: str, out: Path | None) -> None:
    """Measure what this machine is and can do, in under a minute.

    GPU, driver and clocks; matrix products by precision; copy and memory rates; cores and what
    their second threads add when decoding JPEG files; the disk's rate, IOPS and latency; and
    classes of layers. What cannot be measured is listed with the reason. A complete probe is
    kept, and stored with later trials of this machine.

    \b
    advisor probe
    advisor probe --quick --only cpu,decode -o json
    advisor probe --only disk --disk /mnt/gp3 --out gp3.json
    """
    parts = tuple(PARTS) if only is None else chosen_parts(only)
    folder = _checked_disk(disk, parts)
    if out:  # before spending a minute on measuring
        require_writable(out)
    document = probe_machine(parts, quick=quick, disk=folder, on_progress=tell)
    print_answer(output, document, lambda: _screen(document))
    if out:
        write_whole(out, json.dumps(document, indent=1) + "\n")
        tell(f"written to {out}")
    try:
        if keep_fingerprint(document, parts):
            tell("kept: trials measured on this machine are stored with it")
    except DataError as error:
        tell(f"not kept for later trials: {error}")
    if all(map(is_skipped, document["parts"].values())):
        reasons = "; ".join(f"{name}: {part['skipped']}" for name, part in document["parts"].items())
        raise MeasuringError(f"nothing could be measured: {reasons}")


def _checked_disk(folder: Path | None, parts: Sequence[str]) -> Path:
    """The folder whose disk is measured, by default the current one. Raises `UsageError` if a given folder
    does not exist or is not writable, or the disk is not among the parts to measure."""
    if folder is None:
        return Path.cwd()
    if "disk" not in parts:
        raise UsageError(
            "--disk needs the part disk", field="disk", hint="add it to --only, or leave --disk out"
        )
    if not folder.is_dir():
        raise UsageError(f"--disk takes a folder, and '{folder}' is none", field="disk")
    way_out = "--disk takes a folder that can be written: a file is made there for a moment"
    with system_errors(UsageError, f"cannot write to '{folder}'", hint=way_out):
        tempfile.TemporaryFile(dir=folder).close()  # access rights alone do not show whether this works
    return folder


def _screen(document: dict[str, Any]) -> list[str]:
    lines = folded(headline(document), indent=2)
    for section in sections(document):
        shown = table(section.header, section.rows, right=section.right)
        # A table without a header begins with an empty line: drop it.
        lines += ["", section.title, *("  " + line for line in shown if line)]
    lines += ["", f"Probed in {document['seconds']:.0f} s; spread: interquartile range / median."]
    lines += _listed("Not measured", not_measured(document))
    lines += _listed("Warning", document["warnings"])
    return [line if len(line) <= WIDTH else line[: WIDTH - 3] + "..." for line in lines]


def _listed(title: str, entries: list[str]) -> list[str]:
    if not entries:
        return []
    wrapped = (folded(entry, WIDTH - 2, 2) for entry in entries)
    return ["", title, *("  " + line for lines in wrapped for line in lines)]
