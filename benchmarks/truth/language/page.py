"""`python -m benchmarks.truth.language.page DIR` writes docs/internals/accuracy/language.md.

DIR holds the scorer's documents: shipped.json, and one for each thing left out (gpu.json,
model.json, shape.json, engine.json, source.json), and tuning.json (`--tuning`).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.truth import trust

PAGE = Path(__file__).parents[3] / "docs/internals/accuracy/language.md"
DOCUMENTS = ("shipped", "gpu", "model", "shape", "engine", "source")
_LEAST_ROWS = 20
_WEAK_HELD = 75.0

Document = Mapping[str, Any]
Group = Mapping[str, Any]


class Aim(NamedTuple):
    """What must hold: the figure, where it stands, and the mean and median at most, in per cent."""

    figure: str
    document: str
    quantity: str
    by: str
    group: str
    elsewhere: str
    mean: float
    median: float | None


AIMS = (
    Aim("time of a token (or rate), GPU never measured, one GPU or NVLink", "gpu", "step", "joined",
        "by NVLink, or one GPU", "21.8 / 18.4", 15, 9.5),
    Aim("the same, tensor parallel over PCIe", "gpu", "step", "joined", "by PCIe", "-", 25, None),
    Aim("time of a token (or rate), LLM never measured", "model", "step", "all", "all", "-", 16,
        11),
    Aim("output tokens/s, closed loop, GPU never measured", "gpu", "output_rate", "kind", "closed",
        "25.5 / 20.2", 14, 10),
    Aim("output tokens/s, closed loop, LLM never measured", "model", "output_rate", "kind",
        "closed", "25.5 / 20.2", 14, 10),
    Aim("TTFT, closed loop, GPU never measured", "gpu", "ttft", "kind", "closed", "54 / 58", 28,
        20),
    Aim("TTFT, closed loop, LLM never measured", "model", "ttft", "kind", "closed", "54 / 58", 28,
        20),
)  # fmt: skip
_LEFT_OUT = {
    "shipped": "nothing (these rows taught it)",
    "gpu": "the GPU (all cards of its chip)",
    "model": "the LLM",
    "shape": "every LLM of its shape",
    "engine": "the engine",
    "source": "the source",
}
_QUANTITIES = {
    "step": "time of a token, or rate",
    "tpot": "TPOT",
    "ttft": "TTFT",
    "output_rate": "output tokens/s",
}
_HEAD = """# How good the answers about language models are

Made by `python -m benchmarks.truth.language.page DIR` from the scorer's documents:

```
python -m benchmarks.truth --language --json > DIR/shipped.json
python -m benchmarks.truth --language --json --refit-without KIND > DIR/KIND.json
```

KIND is gpu, model, shape, engine or source. The scorer asks the serving predictor that ships as
questions do: closed loops, open loops, static batches, and as many sequences as memory holds.
What is left out is refitted by the same code; intervals keep the quantiles that ship. All rows of
`infra/language_sources/serving.csv.gz` are scored; `--rows` takes others in its columns. Errors
are mean / median per cent of what was measured, each row alike. `held`: how often the 90 % bound
held, the upper one of a time, the lower one of a rate. `half width`: of the log of the interval
between both bounds. A miss is **bold**."""

_NOTES = """## What the misses are

- First tokens: what is left is in the sources. TensorRT-LLM's 70B of 2025-10-29 takes six prompts
  longer at 1k in and 1k out than at 1k in and 8k out, at any load, on 1, 2 and 4 GPUs and not on 8;
  SGLang's DeepSeek of 2025-11-10 waits 5 to 9 s even with 4 in flight, as a compiler would take.
  TensorRT-LLM 1.0.0rc3 answers some 35 requests a second at most, however many GPUs there are. With
  nothing left out 27 / 19 remain; beyond that it is the seconds of a prompt of an unseen model or
  chip: 70B in FP8 is read half as long again as measured where only mixtures teach Blackwell.
  Tried: effects of who measured (47 / 34 with the GPU left out); a queue of prompts by the arrival
  theorem (the same); a start of all at once with waves of equal lengths; years and versions of
  prompts held narrower, mixtures apart: the figures above.
- Bounds are calibrated as they are scored: the cards of a chip, an LLM or both left out, cells of
  rows, each value alike, grouped by what the refit knew. LLMs of unknown shape hold in 90.7 %; one
  whose shape another has counts as known, and holds in 95.4 %: hence 93.5 in all. Cells in five
  folds instead of two: 93.2. With a chip left out closed loops hold in 88.3 %, static batches in
  96.6 %.
- RTX 4090: four of its seven misses with the GPU left out are Qwen2.5-1.5B, whose step takes
  11.3 ms with 3 sequences and 12.5 with 27, nearly four times what its bytes take: kernels seem to
  be launched one by one, which the source does not say, and the rows are kept. The others are over
  PCIe: Llama-8B on two or four cards takes 14 to 15 ms, 0.4 to 0.5 a layer. The scatter between
  hosts (0.6 in the log) widens bounds over PCIe; only trials move it. Tried: slower all-reduces for
  cards that cannot read each other's memory, without the 1.5B: over PCIe 17.2 with the GPU left
  out, but output tokens/s of an unseen LLM in closed loops 14.5 / 11.1.
- After trials: intervals have quantiles of their own, of what is left out and then conditioned on
  three closed loops of its LLM, GPU and engine. The error of a run decides the medians: 0.05 in the
  log gives the figures above; 0.04 gave TPOT of an LLM after three 8.7 / 6.1 and of a GPU
  9.2 / 6.2; 0.06 gave 8.4 / 6.0 and 10.8 / 6.4. An own effect of the prompts between steps changed
  0.1.
- The cheapest choice after one trial: 55 of 59 cases, where 95 % asks for 57; one case fewer than
  without a trial.
- An engine left out: 55 % of the answered rows are TensorRT-LLM's, and all at unlimited load. No
  other rows tell of its 1.0.0rc3 (Llama-3.1-8B: 31 %), two to three times slower than its release.
- LLMs: Qwen3-235B and -30B, mixtures of many small experts, are the farthest off when left out:
  each engine's kernels for experts are their own, and four such models taught them.
- Caches: InferenceX does not publish their format. Where more sequences ran than 16 bits hold, they
  count as FP8 (SOURCES.md); ten rows were answered 3 to 36 times too long before.
- Rows that their source does not describe (speculative, eager, cached, queued: SOURCES.md) are not
  scored; asked as published they would be off by 1.5 to 3 times.
- Weights, KV cache and "fits": [language](../language.md#facts-and-memory); the time of an answer:
  [performance](../performance.md)."""


def group_of(document: Document, quantity: str, by: str, name: str) -> Group | None:
    """One line of a document's tables."""
    return next(
        (
            row
            for row in document["tables"]
            if (row["quantity"], row["by"], row["group"]) == (quantity, by, name)
        ),
        None,
    )


def page(documents: Mapping[str, Document], tuning: Document | None = None) -> str:
    """The page; documents that are missing leave out their lines."""
    parts = [_HEAD, _aims(documents), _left_out(documents), _trials(documents)]
    parts += [_decisions(documents), _load(documents), _tuning(tuning), _weak(documents)]
    parts += [_refused(documents), _NOTES]
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


def _aims(documents: Mapping[str, Document]) -> str:
    lines = ["## What must hold", "", _row("figure", "best elsewhere", "must", "measured", "rows")]
    lines.append(_rule(5))
    for aim in AIMS:
        found = aim.document in documents and group_of(documents[aim.document], *aim[2:5])
        if found:
            lines.append(_row(aim.figure, aim.elsewhere, _aim(aim), _measured(found, aim),
                              f"{found['n']:,}"))  # fmt: skip
    lines += [_held(documents[name], name) for name in ("gpu", "model") if name in documents]
    return "\n".join(lines)


def _aim(aim: Aim) -> str:
    return f"{aim.mean:g}" + (f" / {aim.median:g}" if aim.median else "")


def _measured(found: Group, aim: Aim) -> str:
    mean = _bold(found["mean_percent"], found["mean_percent"] > aim.mean)
    missed = aim.median is not None and found["median_percent"] > aim.median
    return f"{mean} / {_bold(found['median_percent'], missed)}"


def _held(document: Document, name: str) -> str:
    every = group_of(document, "step", "all", "all")
    worst = document["worst_held"]
    assert every
    outside = not 88 <= every["held_percent"] <= 93
    measured = _bold(every["held_percent"], outside)
    if worst:
        weak = _bold(worst["held_percent"], worst["held_percent"] < _WEAK_HELD)
        measured += f"; {weak} ({worst['group']})"
    what = f"90 % bounds held, {_LEFT_OUT[name]} left out; worst GPU or LLM with 20 rows"
    return _row(what, "nobody", "88 to 93; 75", measured, f"{every['n']:,}")


def _left_out(documents: Mapping[str, Document]) -> str:
    lines = ["## By what is left out", ""]
    lines += [_row("left out", "figure", "mean / median", "bias", "held", "half width", "rows")]
    lines.append(_rule(7))
    for name, document in documents.items():
        for quantity, words in _QUANTITIES.items():
            found = group_of(document, quantity, "all", "all")
            if found:
                lines.append(_row(_LEFT_OUT[name], words, *_figures(found)))
    return "\n".join(lines)


def _figures(found: Group) -> tuple[str, ...]:
    return (
        f"{found['mean_percent']} / {found['median_percent']}",
        f"{found['bias_percent']:+g}", f"{found['held_percent']}", f"{found['half_width_log']}",
        f"{found['n']:,}",
    )  # fmt: skip


def _trials(documents: Mapping[str, Document]) -> str:
    lines = [
        "## After trials", "",
        "One, three or five rows of a closed loop of the same LLM, GPU and engine condition the",
        "refitted predictor; the others of that cell are scored before and after. Asked for TPOT",
        "of an LLM after three: 9 / 6.", "",
        _row("left out", "figure", "trials", "before", "after", "held after", "rows"), _rule(7),
    ]  # fmt: skip
    for name, document in documents.items():
        for one in document["after_trials"]:
            before, after = one["before"], one["after"]
            lines.append(_row(
                _LEFT_OUT[name], _QUANTITIES[one["quantity"]], str(one["trials"]),
                f"{before['mean_percent']} / {before['median_percent']}",
                f"{after['mean_percent']} / {after['median_percent']}",
                str(after["held_percent"]), f"{after['n']:,}",
            ))  # fmt: skip
    return "\n".join(lines)


def _decisions(documents: Mapping[str, Document]) -> str:
    ways = {"predicted": "predicted", "with_one_trial": "with one trial of the first choice",
            "lowest_hourly_price": "lowest hourly price"}  # fmt: skip
    lines = [
        "## The cheapest choice for a token", "",
        "A case is one LLM and lengths that one source measured at unlimited load on three choices",
        "or more of GPU, tensor parallelism and format; prices are on demand in us-east-1. Asked:",
        "85 % within 5 % of the best, 5 % overspent; with one trial 95 % and 2 %.", "",
        _row("left out", "way", "within 5 %", "overspent", "cases"), _rule(5),
    ]  # fmt: skip
    for name, document in documents.items():
        for way, words in ways.items():
            found = document["decisions"].get(way, {})
            if found.get("cases"):
                within, over = found["within_5_percent"], found["overspend_percent"]
                cells = (_LEFT_OUT[name], words, f"{within} %", f"{over} %", str(found["cases"]))
                lines.append(_row(*cells))
    return "\n".join(lines)


def _load(documents: Mapping[str, Document]) -> str:
    lines = [
        "## Under load", "",
        "Open loops up to 80 % of the largest rate that was measured.", "",
        _row("left out", "figure", "mean / median", "bias", "held", "half width", "rows"), _rule(7),
    ]  # fmt: skip
    for name, document in documents.items():
        for quantity, found in document["load"].items():
            lines.append(_row(_LEFT_OUT[name], _QUANTITIES[quantity], *_figures(found)))
    return "\n".join(lines)


def _tuning(document: Document | None) -> str:
    if document is None:
        return ""
    lines = [
        "## Training and fine-tuning", "",
        f"Tokens a second and GPU of {document['answered']} runs of",
        "`infra/language_sources/training.csv.gz`, by",
        "`python -m benchmarks.truth --language --tuning --json`. Asked, in the mean: 10 % without",
        "the size, 18 % without the GPU; one share of the peak for all gives 18.2 and 19.9.", "",
        _row("left out", "rows", "mean / median", "bias", "held", "half width", "n"), _rule(7),
    ]  # fmt: skip
    for row in document["tables"]:
        if row["by"] in ("all", "method"):
            lines.append(_row(f"the {row['left_out']}", row["group"], *_figures(row)))
    return "\n".join(lines)


def _weak(documents: Mapping[str, Document]) -> str:
    lines = [
        "## Where it errs", "",
        "Groups of 20 rows or more whose bounds held in less than 75 %, or that are 25 % off or",
        "more in the mean.", "",
        _row("left out", "group", "mean / median", "bias", "held", "half width", "rows"), _rule(7),
    ]  # fmt: skip
    for name, document in documents.items():
        for row in document["tables"]:
            weak = row["held_percent"] < _WEAK_HELD or row["mean_percent"] >= 25
            if (
                row["quantity"] == "step"
                and row["by"] != "all"
                and row["n"] >= _LEAST_ROWS
                and weak
            ):
                lines.append(_row(_LEFT_OUT[name], f"{row['by']} {row['group']}", *_figures(row)))
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


def _bold(value: float, missed: bool) -> str:
    return f"**{value:g}**" if missed else f"{value:g}"


def _row(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"


def _rule(columns: int) -> str:
    return _row(*["---"] * columns)


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the page from the documents that the folder has."""
    parser = argparse.ArgumentParser(prog="benchmarks.truth.language.page", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--to", type=Path, default=PAGE)
    options = parser.parse_args(arguments)
    paths = {name: options.folder / f"{name}.json" for name in DOCUMENTS}
    documents = {
        name: json.loads(path.read_text()) for name, path in paths.items() if path.exists()
    }
    tuning = options.folder / "tuning.json"
    options.to.write_text(
        page(documents, json.loads(tuning.read_text()) if tuning.exists() else None)
    )
    trust.main()


if __name__ == "__main__":
    main()
