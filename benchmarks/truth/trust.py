"""`python -m benchmarks.truth.trust`: the figures of docs/explanation/trust.md.

They are rows of the pages that the scorers wrote (docs/internals/accuracy): those pages are the
only source, and their writers call this. A row that a page no longer has is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "explanation" / "trust.md"
NETWORKS = DOCS / "internals" / "accuracy" / "shipped.md"
LANGUAGE = DOCS / "internals" / "accuracy" / "language.md"
_BLOCK = re.compile(r"(<!-- figures -->\n).*?(<!-- /figures -->)", re.DOTALL)

# What was withheld from the fit, and the row of the page that left it out.
_RATES = (
    ("your batch size", "a batch size of a measured cell"),
    ("your network, not others of its class", "a network, its class known"),
    ("every network of its class, inference", "a class of networks, GPU measured, inference"),
    ("every network of its class, training", "a class of networks, GPU measured, training"),
    ("a GPU that clouds sell, PyTorch 2", "a GPU that clouds sell, PyTorch >= 2"),
    ("any GPU", "a GPU, data sheet only"),
    ("the source of a training script", "a source of training scripts"),
    ("the GPU, except six networks measured on it", "a GPU, six networks measured by the user"),
    ("your network, except an anchor from another GPU", "a network, anchored on another GPU"),
    ("all that one source measured", "a source of rows"),
    (
        "rows whose licence lets nobody fit them: others' networks, cards and settings",
        "rows that may not be fitted (licence)",
    ),
)
_CHOICES = (("nothing", "nothing"), ("the GPU", "the GPU"))
_RULES = (("recommended", "expected"), ("after one trial", "expected with trial"), ("the safe one", "bound"))
_LLM = (("the GPU", "the GPU (all cards of its chip)"), ("the language model", "the LLM"))
_FIGURES = ("TPOT", "TTFT", "output tokens/s")


def block() -> str:
    """The tables, from the scorers' pages as they are."""
    networks, language = NETWORKS.read_text(), LANGUAGE.read_text()
    return "\n".join([*_rates(networks), *_choices(networks), *_language(language)])


def with_block(page: str) -> str:
    """The page with today's tables between its marks."""
    return _BLOCK.sub(lambda found: f"{found[1]}{block()}{found[2]}", page)


def main() -> None:
    """Write the figures into the page."""
    PAGE.write_text(with_block(PAGE.read_text()))


def _rates(page: str) -> Iterator[str]:
    yield "**Rate of a network** (training or inference):\n"
    yield "| withheld | mean error | median error | p10 held (aim 90 %) | rows |"
    yield "| --- | --- | --- | --- | --- |"
    for words, name in _RATES:
        row = _row(page, name)
        mean, median = row["mean / median"].replace("*", "").split(" / ")
        yield f"| {words} | {mean} % | {median} % | {row['held']} % | {row['rows']} |"
    yield ""


def _choices(page: str) -> Iterator[str]:
    heading = page.split("## The cheapest instance for a target", 1)[1]
    yield "**The choice**, of a thousand questions whose true answer was measured:\n"
    yield "| withheld | chosen | cheapest chosen | target met | paid too much |"
    yield "| --- | --- | --- | --- | --- |"
    for words, name in _CHOICES:
        row = _row(heading, name)
        for spec, rule in _RULES:
            chosen, met, over = row[rule].partition(",")[0].split(" / ")
            yield f"| {words} | {spec} | {chosen} % | {met} % | {over} % |"
    yield ""


def _language(page: str) -> Iterator[str]:
    yield "**A language model that is served**:\n"
    yield "| withheld | figure | mean error | median error | 90 % bound held | rows |"
    yield "| --- | --- | --- | --- | --- | --- |"
    heading = page.split("## By what is left out", 1)[1]
    for words, name in _LLM:
        for figure in _FIGURES:
            row = _row(heading, name, figure)
            mean, median = row["mean / median"].split(" / ")
            cells = (words, figure, f"{mean} %", f"{median} %", f"{row['held']} %", row["rows"])
            yield f"| {' | '.join(cells)} |"
    yield ""


def _row(page: str, *first: str) -> dict[str, str]:
    """The first row of a page's tables that begins with these cells, by column."""
    columns: list[str] = []
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line[:1] == "|" else []
        columns = (columns or cells) if cells else []
        if cells[: len(first)] == list(first):
            return dict(zip(columns, cells, strict=True))
    raise SystemExit(f"no row {' | '.join(first)}")


if __name__ == "__main__":
    main()
