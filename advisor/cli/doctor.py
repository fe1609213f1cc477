"""`advisor doctor`: what is wrong with this machine, and what to do."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

import click

from advisor.cli.printing import print_answer
from advisor.cli.questions import output_option
from advisor.errors import one_line
from advisor.render.text import WIDTH
from advisor.runs.doctor.finding import Finding, State


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
    from advisor.runs.doctor.examining import document, examine, worst

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
