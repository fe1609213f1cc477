"""The answers and the picture of READMEs and docs, made again: `python -m benchmarks.readme`.

Asks the real commands: `advisor recommend` for the text, `advisor report` for the chart of price against
throughput (SVG, in both languages). Blocks of `MARKED` pages are what the command in their mark prints. Needs
the extra `report`."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", ROOT / "README.zh-CN.md")
FOLDER = ROOT / "docs" / "images"
MARKED = (ROOT / "docs/how-to/language.md", ROOT / "docs/reference/answers.md")
QUESTION = ("--task", "inference", "--model", "googlenet", "--target-throughput", "500")
DATE = "2026-11-22"
PICTURES = {"price.svg": "en", "price.zh-CN.svg": "zh-CN"}
_ANSWER = re.compile(r"(<!-- answer -->\n```\n).*?(```\n<!-- /answer -->)", re.DOTALL)
_MARKED = re.compile(r"(<!-- prints: advisor ([^\n]*) -->\n```\n).*?(```\n<!-- /prints -->)", re.DOTALL)
_CHART = re.compile(r"""src=["']data:image/svg\+xml[^,"]*,(.*?%3C/svg%3E)""", re.DOTALL)
# Pages may be dark; the chart's letters are.
_BACKGROUND = "<rect width='100%' height='100%' fill='#fff'/>"


def main() -> None:
    """Write both pages and both pictures."""
    text = answer()
    for page in PAGES:
        page.write_text(with_answer(page.read_text(), text))
    for page in MARKED:
        page.write_text(with_printed(page.read_text()))
    for name, language in PICTURES.items():
        (FOLDER / name).write_text(first_chart(language) + "\n")


def answer() -> str:
    """What the command of the READMEs prints."""
    return printed(["recommend", *QUESTION])


def with_printed(page: str) -> str:
    """The page with what each of its marked commands prints now."""
    return _MARKED.sub(lambda match: f"{match[1]}{printed(shlex.split(match[2])).rstrip()}\n{match[3]}", page)


def printed(words: list[str]) -> str:
    """What `advisor` prints for these words, 100 columns wide, with an answer (0) or without one (3)."""
    command = [sys.executable, "-m", "advisor", *words]
    environment = {**os.environ, "COLUMNS": "100"}
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert run.returncode in (0, 3), run.stderr
    return run.stdout


def with_answer(page: str, text: str) -> str:
    """The page with the text between its marks."""
    return _ANSWER.sub(lambda match: f"{match[1]}{text.rstrip()}\n{match[2]}", page)


def first_chart(language: str) -> str:
    """The first chart of the report, as SVG on white."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "report.html"
        words = ("report", *QUESTION, "--date", DATE, "--language", language, "--out", str(out))
        command = [sys.executable, "-m", "advisor", *words]
        subprocess.run(command, check=True)
        chart = _CHART.search(out.read_text())
    assert chart, "the report has no chart"
    tag, rest = unquote(chart[1]).split(">", 1)
    return f"{tag}>{_BACKGROUND}{rest}"


if __name__ == "__main__":
    main()
