"""`python -m benchmarks.truth.language.page DIR` writes docs/internals/accuracy/language.md.

DIR holds the scorer's documents: shipped.json, and one for each thing left out (gpu.json,
model.json, shape.json, engine.json, source.json), and tuning.json (`--tuning`).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path

from benchmarks.truth import trust
from benchmarks.truth.language.aims import (
    LEAST_ROWS,
    LEFT_OUT,
    QUANTITIES,
    WAYS,
    WEAK_HELD,
    Document,
    Group,
    aims_of,
    choice,
    figures_after,
    group_of,
    held_text,
    line,
    rule,
)

PAGE = Path(__file__).parents[3] / "docs/internals/accuracy/language.md"
NOTES = Path(__file__).with_name("notes.md")
DOCUMENTS = ("shipped", "gpu", "model", "shape", "engine", "source")
_HEAD = """# How good the answers about language models are

Made by `python -m benchmarks.truth.language.page DIR` from the scorer's documents:

```
python -m benchmarks.truth --language --json > DIR/shipped.json
python -m benchmarks.truth --language --json --refit-without KIND > DIR/KIND.json
```

KIND is gpu, model, shape, engine or source. The scorer asks the serving predictor that ships as
questions do: closed loops, open loops, static batches, and as many sequences as memory holds.
What is left out is refitted by the same code; intervals keep the quantiles that ship. All rows of
`infra/build/language_sources/serving.csv.gz` are scored; `--rows` takes others in its columns. Errors
are mean / median per cent of what was measured, each row alike. `held`: how often the 90 % bound
held, the upper one of a time, the lower one of a rate. `half width`: of the log of the interval
between both bounds. A miss is **bold**."""


def page(documents: Mapping[str, Document], tuning: Document | None = None, day: date | None = None) -> str:
    """The page, measured on a day; documents that are missing leave out their lines."""
    parts = [
        f"{_HEAD} Measured on {day}." if day else _HEAD,
        aims_of(documents, tuning),
        _left_out(documents),
        _trials(documents),
    ]
    parts += [_decisions(documents), _load(documents), _tuning(tuning), _weak(documents)]
    parts += [_first_tokens(documents), _refused(documents), NOTES.read_text()]
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


def _left_out(documents: Mapping[str, Document]) -> str:
    lines = ["## By what is left out", ""]
    lines += [line("left out", "figure", "mean / median", "bias", "held", "half width", "rows")]
    lines.append(rule(7))
    for name, document in documents.items():
        for quantity, words in QUANTITIES.items():
            found = group_of(document, quantity, "all", "all")
            if found:
                lines.append(line(LEFT_OUT[name], words, *_figures(found)))
    return "\n".join(lines)


def _figures(found: Group) -> tuple[str, ...]:
    return (
        f"{found['mean_percent']} / {found['median_percent']}",
        f"{found['bias_percent']:+g}",
        f"{found['held_percent']}",
        f"{found['half_width_log']}",
        f"{found['n']:,}",
    )


def _trials(documents: Mapping[str, Document]) -> str:
    lines = [
        "## After trials",
        "",
        "One, three or five rows of a closed loop of the same LLM, GPU and engine condition the",
        "refitted predictor; the others of that cell are scored before and after. Asked for TPOT",
        "of an LLM after three: 9 / 6.",
        "",
        line("left out", "figure", "trials", "before", "after", "held after", "rows"),
        rule(7),
    ]
    for name, document in documents.items():
        for one in document["after_trials"]:
            before, after = one["before"], one["after"]
            lines.append(
                line(
                    LEFT_OUT[name],
                    QUANTITIES[one["quantity"]],
                    str(one["trials"]),
                    f"{before['mean_percent']} / {before['median_percent']}",
                    figures_after(one),
                    held_text(after["held_percent"]),
                    f"{after['n']:,}",
                )
            )
    return "\n".join(lines)


def _decisions(documents: Mapping[str, Document]) -> str:
    lines = [
        "## The cheapest choice for a token",
        "",
        "A case is one LLM and lengths that one source measured at unlimited load on three choices",
        "or more of GPU, tensor parallelism and format; prices are on demand in us-east-1. Asked:",
        "85 % within 5 % of the best, 5 % overspent; with one trial 95 % and 2 %.",
        "",
        line("left out", "way", "within 5 %", "overspent", "cases"),
        rule(5),
    ]
    for name, document in documents.items():
        for way, words in WAYS.items():
            found = document["decisions"].get(way, {})
            if found.get("cases"):
                within, over = choice(found, way)
                cells = (LEFT_OUT[name], words, f"{within} %", f"{over} %", str(found["cases"]))
                lines.append(line(*cells))
    return "\n".join(lines)


def _load(documents: Mapping[str, Document]) -> str:
    lines = [
        "## Under load",
        "",
        "Open loops up to 80 % of the largest rate that was measured.",
        "",
        line("left out", "figure", "mean / median", "bias", "held", "half width", "rows"),
        rule(7),
    ]
    for name, document in documents.items():
        for quantity, found in document["load"].items():
            lines.append(line(LEFT_OUT[name], QUANTITIES[quantity], *_figures(found)))
    return "\n".join(lines)


def _tuning(document: Document | None) -> str:
    if document is None:
        return ""
    lines = [
        "## Training and fine-tuning",
        "",
        f"Tokens a second and GPU of {document['answered']} runs of",
        "`infra/build/language_sources/training.csv.gz`, by",
        "`python -m benchmarks.truth --language --tuning --json`. Asked, in the mean: 10 % without",
        "the size, 18 % without the GPU; one share of the peak for all gives 18.2 and 19.9.",
        "",
        line("left out", "rows", "mean / median", "bias", "held", "half width", "n"),
        rule(7),
    ]
    for row in document["tables"]:
        if row["by"] in ("all", "method"):
            lines.append(line(f"the {row['left_out']}", row["group"], *_figures(row)))
    return "\n".join(lines)


def _weak(documents: Mapping[str, Document]) -> str:
    lines = [
        "## Where it errs",
        "",
        "Groups of 20 rows or more whose bounds held in less than 75 %, or that are 25 % off or",
        "more in the mean.",
        "",
        line("left out", "group", "mean / median", "bias", "held", "half width", "rows"),
        rule(7),
    ]
    for name, document in documents.items():
        for row in document["tables"]:
            weak = row["held_percent"] < WEAK_HELD or row["mean_percent"] >= 25
            if row["quantity"] == "step" and row["by"] != "all" and row["n"] >= LEAST_ROWS and weak:
                lines.append(line(LEFT_OUT[name], f"{row['by']} {row['group']}", *_figures(row)))
    return "\n".join(lines)


def _first_tokens(documents: Mapping[str, Document]) -> str:
    lines = [
        "## First tokens",
        "",
        "What the errors of TTFT hang on; groups of 40 rows or more.",
        "",
        line("left out", "group", "mean / median", "bias", "held", "half width", "rows"),
        rule(7),
    ]
    for name in ("shipped", "gpu", "model"):
        for row in documents[name]["tables"] if name in documents else ():
            wanted = row["by"] in ("engine", "precision", "source")
            if row["quantity"] == "ttft" and wanted and row["n"] >= 2 * LEAST_ROWS:
                lines.append(line(LEFT_OUT[name], f"{row['by']} {row['group']}", *_figures(row)))
    return "\n".join(lines)


def _refused(documents: Mapping[str, Document]) -> str:
    document = documents.get("shipped")
    if document is None:
        return ""
    reasons = ", ".join(f"{why} {count:,}" for why, count in document["refused"].items())
    return (
        f"Of {document['rows']:,} rows {document['answered']:,} are answered; the others, by "
        f"reason: {reasons}."
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the page from the documents that the folder has."""
    parser = argparse.ArgumentParser(prog="benchmarks.truth.language.page", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--to", type=Path, default=PAGE)
    options = parser.parse_args(arguments)
    paths = {name: options.folder / f"{name}.json" for name in DOCUMENTS}
    documents = {name: json.loads(path.read_text()) for name, path in paths.items() if path.exists()}
    tuning = options.folder / "tuning.json"
    trained = json.loads(tuning.read_text()) if tuning.exists() else None
    options.to.write_text(page(documents, trained, date.today()))
    trust.main()


if __name__ == "__main__":
    main()
