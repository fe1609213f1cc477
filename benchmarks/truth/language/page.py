"""`python -m benchmarks.truth.language.page DIR` writes docs/internals/accuracy/language.md.

DIR holds the scorer's documents: shipped.json, gpu.json and model.json, by what is left out, and tuning.json
(`--tuning`). A figure that misses its aim is bold."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.truth import trust
from benchmarks.truth.tables import documents_in, heads, marked, row

PAGE = Path(__file__).parents[3] / "docs/internals/accuracy/language.md"
Document = Mapping[str, Any]
LEFT_OUT = {"shipped": "nothing", "gpu": "the GPU", "model": "the LLM"}
# How often bounds of 90 % should hold, per cent.
_HELD = (88.0, 93.0)
_AFTER_TRIALS, _AIM_AFTER_TRIALS = 3, (9.0, 6.0)
# By the way of deciding: its words; at least within 5 % of the best, at most overspent.
_WAYS: Mapping[str, tuple[str, float, float]] = {
    "predicted": ("predicted", 85.0, 5.0),
    "with_one_trial": ("with one trial of the first choice", 95.0, 2.0),
    "lowest_hourly_price": ("lowest hourly price", 0.0, float("inf")),
}
# So many reasons why a row is not scored are named.
_REASONS = 2
_AIMS_OF_TUNING = {"model size": 10.0, "gpu": 18.0}

_HEAD = """# How good the answers about language models are

Made by `python -m benchmarks.truth.language.page DIR` from the documents of
`python -m benchmarks.truth --language --json --refit-without KIND`: gpu (all cards of a chip) or model.
The scorer calls the predictor that ships, as questions do, and refits it without what is left out;
intervals keep the quantiles that ship. Errors are mean / median per cent of the measured figure.
`held`: how often the 90 % bound held, the upper one of a time, the lower one of a rate. `half width`
is that of the interval's log. A miss of the aim is **bold**."""

_NOTES = "What was tried for the misses: [tried](tried-language.md)."


class Line(NamedTuple):
    """A figure: its words, where its groups stand in a document, and mean and median at most by document."""

    words: str
    quantity: str
    by: str = "all"
    group: str = "all"
    aims: Mapping[str, tuple[float, float | None]] = {}


LINES = (
    Line("time of a token, or rate", "step"),
    Line(
        "the same, one GPU or NVLink",
        "step",
        "joined",
        "by NVLink, or one GPU",
        {"gpu": (12, 8), "model": (13, 8.5)},
    ),
    Line("the same, over PCIe", "step", "joined", "by PCIe", {"gpu": (28, 22), "model": (28, 22)}),
    Line("the same, mixtures", "step", "experts", "mixtures", {"gpu": (14, 10), "model": (14, 10)}),
    Line(
        "the same, a mixture in fp8, 8 or fewer in flight",
        "step",
        "experts",
        "few requests of a mixture in fp8",
        {"gpu": (14, 10), "model": (14, 10)},
    ),
    Line("TPOT", "tpot"),
    Line("TTFT", "ttft"),
    Line("TTFT, closed loops", "ttft", "kind", "closed", {"gpu": (26, 18), "model": (26, 18)}),
    Line("output tokens/s", "output_rate"),
    Line(
        "output tokens/s, closed loops", "output_rate", "kind", "closed", {"gpu": (14, 10), "model": (14, 10)}
    ),
)


def page(documents: Mapping[str, Document], tuning: Document | None = None, day: date | None = None) -> str:
    """The page, measured on a day; documents that are missing leave out their lines."""
    sections = *(make(documents) for make in (_left_out, _trials, _choices, _load)), _tuning(tuning)
    head = f"{_HEAD} Measured on {day}." if day else _HEAD
    parts = [head, *("\n".join(section) for section in sections), _refused(documents), _NOTES]
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


def _left_out(documents: Mapping[str, Document]) -> Iterator[str]:
    yield "## By what is left out\n"
    yield from heads("left out", "figure", "mean / median", "aim", "bias", "held", "half width", "rows")
    for name, document in documents.items():
        for line in LINES:
            group = _group_of(document, line)
            if group and (line.by == "all" or name in line.aims):
                mean, median = line.aims.get(name, (None, None))
                aim = " / ".join(f"{most:g}" for most in (mean, median) if most is not None)
                error, *rest = _figures(group, mean, median)
                yield row(LEFT_OUT[name], line.words, error, aim, *rest)


def _group_of(document: Document, line: Line) -> Mapping[str, Any] | None:
    index = (line.quantity, line.by, line.group)
    groups = (each for each in document["tables"] if (each["quantity"], each["by"], each["group"]) == index)
    return next(groups, None)


def _figures(
    group: Mapping[str, Any], mean: float | None = None, median: float | None = None
) -> tuple[str, ...]:
    width, bias = group["half_width_log"], f"{group['bias_percent']:+g}"
    return _errors(group, mean, median), bias, f"{group['held_percent']}", f"{width}", f"{group['n']:,}"


def _errors(group: Mapping[str, Any], mean: float | None, median: float | None) -> str:
    figures = (group["mean_percent"], mean), (group["median_percent"], median)
    return " / ".join(marked(figure, most is not None and figure > most) for figure, most in figures)


def _trials(documents: Mapping[str, Document]) -> Iterator[str]:
    yield "## After three trials\n"
    yield "Three rows of a closed loop of the same LLM, GPU and engine condition the refitted predictor; the"
    yield "others of that cell are scored before and after. Aim for TPOT: 9 / 6; bounds held in 88 to 93 %.\n"
    yield from heads("left out", "figure", "before", "after", "held after", "rows")
    words = {line.quantity: line.words for line in LINES if line.by == "all"}
    for name, document in documents.items():
        for one in document["after_trials"]:
            if one["trials"] == _AFTER_TRIALS:
                aims = _AIM_AFTER_TRIALS if one["quantity"] == "tpot" else (None, None)
                before, after = one["before"], one["after"]
                held = marked(after["held_percent"], not _HELD[0] <= after["held_percent"] <= _HELD[1])
                earlier = f"{before['mean_percent']} / {before['median_percent']}"
                yield row(
                    LEFT_OUT[name],
                    words[one["quantity"]],
                    earlier,
                    _errors(after, *aims),
                    held,
                    f"{after['n']:,}",
                )


def _choices(documents: Mapping[str, Document]) -> Iterator[str]:
    yield "## The cheapest choice for a token\n"
    yield "A case is one LLM and lengths that one source measured at unlimited load on three or more choices"
    yield "of GPU, tensor parallelism and format; prices are on demand in us-east-1. Aim: 85 % within 5 % of"
    yield "the best, 5 % overspent; with one trial 95 % and 2 %.\n"
    yield from heads("left out", "way", "within 5 %", "overspent", "cases")
    for name, document in documents.items():
        for way, (words, least, most) in _WAYS.items():
            found = document["decisions"].get(way, {})
            # The lowest price is the same whatever is left out.
            if found.get("cases") and (name == "shipped" or way != "lowest_hourly_price"):
                within, over = found["within_5_percent"], found["overspend_percent"]
                figures = (f"{marked(within, within < least)} %", f"{marked(over, over > most)} %")
                yield row(LEFT_OUT[name], words, *figures, found["cases"])


def _load(documents: Mapping[str, Document]) -> Iterator[str]:
    yield "## Under load\n"
    yield "Open loops up to 80 % of the largest rate that was measured.\n"
    yield from heads("left out", "figure", "mean / median", "bias", "held", "half width", "rows")
    for name, document in documents.items():
        for quantity, group in document["load"].items():
            yield row(LEFT_OUT[name], quantity.upper(), *_figures(group))


def _tuning(document: Document | None) -> Iterator[str]:
    if document is None:
        return
    yield "## Training and fine-tuning\n"
    yield f"Tokens a second and GPU of {document['answered']} published runs, by"
    yield "`python -m benchmarks.truth --language --tuning --json`. Aim, in the mean: 10 % without the size,"
    yield "18 % without the GPU.\n"
    yield from heads("left out", "rows", "mean / median", "bias", "held", "half width", "n")
    for group in document["tables"]:
        if group["by"] == "all":
            aim = _AIMS_OF_TUNING.get(group["left_out"])
            yield row(f"the {group['left_out']}", group["group"], *_figures(group, aim))


def _refused(documents: Mapping[str, Document]) -> str:
    document = documents.get("shipped")
    if document is None:
        return ""
    reasons = ", ".join(f"{why} {count:,}" for why, count in [*document["refused"].items()][:_REASONS])
    return (
        f"Of {document['rows']:,} rows {document['answered']:,} are scored. The others are not described "
        f"well enough by their source, or need what the predictor lacks: {reasons}, ..\n"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the page from the documents that the folder has."""
    parser = argparse.ArgumentParser(prog="benchmarks.truth.language.page", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--to", type=Path, default=PAGE)
    options = parser.parse_args(arguments)
    tuning = documents_in(options.folder, ["tuning"]).get("tuning")
    options.to.write_text(page(documents_in(options.folder, LEFT_OUT), tuning, date.today()))
    trust.main()


if __name__ == "__main__":
    main()
