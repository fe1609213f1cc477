"""`python -m tests.corpus make [--wheel WHEEL] OUT` asks a build; `compare OLD NEW` compares two.

Without a wheel this tree is asked. `questions.jsonl` were drawn once, over all tasks, clouds, markets and
limits: half of the limits so tight that nothing answers, a refusal with one thing wrong. Their answers are
frozen, so they are not drawn again. `answers.jsonl.gz` are those of the build before the rooms were rebuilt.
`compare` prints what differs, counted by kind, and ends with 1 where a difference has no reason in
`reasons.json`: a list of `kind`, `where` and `reason`. `where` is a path in the document, which covers what
is beneath it, or `text`, `stderr` or `code`."""

from __future__ import annotations

import gzip
import json
import math
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

import click

HERE = Path(__file__).parent
QUESTIONS = HERE / "questions.jsonl"
ANSWERS = HERE / "answers.jsonl.gz"
REASONS = HERE / "reasons.json"
_RELATIVE = 1e-9


@click.group()
def corpus() -> None:
    """Every question of the corpus, asked of a build."""


@corpus.command()
@click.option("--wheel", type=click.Path(exists=True, dir_okay=False), help="The build to ask.")
@click.option("--every", default=1, help="Ask each N-th question only.")
@click.argument("out", type=click.Path(path_type=Path))
def make(wheel: str | None, every: int, out: Path) -> None:
    """Ask a build every question; OUT is a .jsonl.gz."""
    with tempfile.TemporaryDirectory() as folder:
        asked = Path(folder) / "questions.jsonl"
        lines = QUESTIONS.read_text(encoding="utf-8").splitlines(keepends=True)
        asked.write_text("".join(lines[::every]), encoding="utf-8")
        python = sys.executable
        if wheel:
            python = _environment(Path(folder) / "venv", wheel)
        answers = Path(folder) / "answers.jsonl"
        subprocess.run([python, HERE / "recording.py", asked, answers], check=True)
        with gzip.GzipFile(out, "wb", mtime=0) as file:
            file.write(answers.read_bytes())


def _environment(folder: Path, wheel: str) -> str:
    venv.create(folder, with_pip=True)
    python = str(folder / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "--quiet", wheel], check=True)
    return python


@corpus.command()
@click.argument("old", type=click.Path(exists=True, path_type=Path))
@click.argument("new", type=click.Path(exists=True, path_type=Path))
@click.option("--show", default=10, help="Differences to print of each kind.")
def compare(old: Path, new: Path, show: int) -> None:
    """Print where two builds differ; ends with 1 where a difference has no reason."""
    by_reason = differences_by_reason(old, new)
    left = by_reason.get(UNEXPLAINED, [])
    for words, where, before, after in left[:show]:
        click.echo(f"advisor {' '.join(words)}\n  {where}\n  - {before}\n  + {after}")
    click.echo(json.dumps({reason: len(those) for reason, those in by_reason.items()}, indent=1))
    sys.exit(1 if left else 0)


def read(file: Path) -> list[dict[str, Any]]:
    """The recorded answers, in the order of the questions."""
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


Difference = tuple[list[str], str, Any, Any]
UNEXPLAINED = "without a reason"


def differences_by_reason(old: Path, new: Path) -> dict[str, list[Difference]]:
    """Where two builds' answers differ, by the kind of the reason for it."""
    reasons = json.loads(REASONS.read_text(encoding="utf-8")) if REASONS.exists() else []
    by_reason: dict[str, list[Difference]] = {}
    for difference in differences(read(old), read(new)):
        by_reason.setdefault(reason_of(difference[1], reasons) or UNEXPLAINED, []).append(difference)
    return by_reason


def differences(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> Iterator[Difference]:
    """Each value that differs, numbers by 1e-9 of their size, of the questions that both were asked."""
    answers = {tuple(answer["words"]): answer for answer in old}
    for after in new:
        before = answers[tuple(after["words"])]
        for part in ("code", "stderr", "text", "document"):
            where = "" if part == "document" else part
            for path, one, other in _unequal(before[part], after[part], where):
                yield before["words"], path, one, other


def _unequal(old: Any, new: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            yield from _unequal(old.get(key), new.get(key), f"{path}.{key}" if path else key)
    elif isinstance(old, list) and isinstance(new, list):
        for one, other in zip_longest(old, new):
            yield from _unequal(one, other, path)
    elif isinstance(old, float) and isinstance(new, float | int):
        if not math.isclose(old, new, rel_tol=_RELATIVE):
            yield path, old, new
    elif old != new:
        yield path, old, new


def reason_of(where: str, reasons: list[dict[str, str]]) -> str | None:
    """Why values at this path may differ; None where nothing says so."""
    for reason in reasons:
        if where == reason["where"] or where.startswith(f"{reason['where']}."):
            return reason["kind"]
    return None


if __name__ == "__main__":
    corpus()
