"""`python -m benchmarks.truth.page DIR`: accuracy/shipped.md, from the scorer's documents.

DIR has JSON documents of `benchmarks.truth` (and `decisions-*.json` of `benchmarks.decisions`), each under
the name that `PAGE` gives it; what is missing is said to be missing."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.truth import trust
from benchmarks.truth.tables import documents_in, heads, row

ROOT = Path(__file__).parents[2]
OUT = ROOT / "docs" / "internals" / "accuracy" / "shipped.md"
_CLOUD = "cloud, PyTorch >= 2"


class Line(NamedTuple):
    """A row of the table: what is left out, in which document and group, and the aim:
    mean and median per cent at most (None: no aim)."""

    words: str
    document: str
    by: str
    group: str
    mean: float | None
    median: float | None


# The options of `python -m benchmarks.truth` that made each document.
PAGE: Mapping[str, str] = {
    "whole": "",
    "unseen": "",
    "family": "--refit-without family",
    "network": "--refit-without network",
    "gpu": "--refit-without gpu",
    "gpu-told": "--refit-without gpu --source-told",
    "gpu-kernels": "--refit-without gpu --keep kernels",
    "gpu-probes": "--refit-without gpu --keep probes",
    "gpu_precision": "--refit-without gpu+precision",
    "architecture": "--refit-without architecture",
    "family_gpu": "--refit-without family+gpu",
    "network-anchor": "--refit-without network --anchor",
    "batch": "--refit-without batch",
    "source": "--refit-without source",
}
LINES = (
    Line("nothing (the rows taught it)", "whole", "all", "all", None, None),
    Line("a GPU that clouds sell, PyTorch >= 2", "gpu", "headline", _CLOUD, 13, 9),
    Line("a GPU that clouds sell", "gpu", "headline", "cloud", 16.5, 11),
    Line("a GPU, data sheet only", "gpu", "all", "all", None, None),
    Line("a GPU, its source known", "gpu-told", "all", "all", 26, 18),
    Line("a source of training scripts", "source", "headline", "scripts", 30, 22),
    Line("a class of networks, GPU measured, inference", "family", "task", "inference", 16, 10),
    Line("a class of networks, GPU measured, training", "family", "task", "training", 17, 10.5),
    Line("a network, its class known", "network", "all", "all", None, None),
    Line("a GPU, its kernels measured", "gpu-kernels", "all", "all", None, None),
    Line("a GPU, six networks measured by the user", "gpu-probes", "all", "all", 11, 7.5),
    Line("a GPU in one precision", "gpu_precision", "all", "all", 18, 12),
    Line("an architecture of GPUs", "architecture", "all", "all", None, None),
    Line("class, GPU and precision at once", "family_gpu", "all", "all", 25, 18),
    Line("a network, anchored on another GPU", "network-anchor", "all", "all", 10, None),
    Line("a batch size of a measured cell", "batch", "all", "all", 5, None),
    Line("a source of rows", "source", "all", "all", None, None),
    Line("rows that may not be fitted (licence)", "unseen", "all", "all", None, None),
    Line("GPU memory at its peak", "whole", "memory", "all", 15, 10),
)
_DECISIONS = (
    ("nothing", "decisions-none"),
    ("the network", "decisions-network"),
    ("the GPU", "decisions-gpu"),
)
# What a change of settings brings, by what is left out.
_GAINS = (("the class of networks", "gains-family"), ("the GPU", "gains-gpu"))
_RULES = ("bound", "median", "expected", "expected_with_trial")
_MUST_DECIDE = "91 / 96 / 4; GPU left out 85 / 93 / 8; with trial 96 / 99.5 / 3.5"

_HEAD = """# How good the answers are

Made by `python -m benchmarks.truth.page DIR` from the scorer's documents. What is left out is refitted by
the same code; intervals keep the quantiles that ship. All PyTorch rows are scored:

```
ROWS=infra/build/performance_sources/observations.csv.gz
python -m benchmarks.truth --rows $ROWS --json [OPTIONS: `PAGE` of benchmarks/truth/page.py] > DIR/NAME.json
python -m benchmarks.truth --rows $ROWS --json --gains --refit-without family|gpu > DIR/gains-NAME.json
python -m benchmarks.decisions --json [--refit-without network|gpu] > DIR/decisions-NAME.json
```

Errors are per cent of the measured rate; each group of what is left out weighs alike. `held`: how
often the 90 % lower bound held. `half width`: of the 80 % interval. `floor`: mean / median that one
perfect constant of each group would leave. `GPU-bound`: mean / median / held of rows with more than
50 us a kernel. `aim`: mean / median at most; a miss is **bold**.

Each row is predicted under the protocol that it was measured with, in one line of the table knowing by whom.
"""


def page(documents: Mapping[str, Mapping[str, Any]]) -> str:
    """The page's text."""
    parts = [_HEAD, *_table(documents), "", *_refused(documents), "", *_decisions(documents), ""]
    return "\n".join([*parts, *_gains(documents), ""])


def _table(documents: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    columns = ("left out", "mean / median", "floor", "aim", "held", "half width", "rows", "GPU-bound")
    yield from heads(*columns)
    missing = []
    for line in LINES:
        document = documents.get(line.document)
        group = document and _group(document, line.by, line.group)
        if not group:
            missing.append(line.words)
            continue
        bound = document and line.by in ("all", "task") and _group(document, "gpu-bound", line.group)
        mean, median, held, width = (
            group[f"{name}_percent"] for name in ("mape", "median", "lower_held", "half_width")
        )
        yield row(
            line.words,
            f"{_marked(mean, line.mean)} / {_marked(median, line.median)}",
            _figures(group, "floor_mape", "floor_median"),
            " / ".join(f"{most:g}" for most in (line.mean, line.median) if most is not None),
            f"{held:g}",
            f"{width:g}",
            f"{group['n']:,}",
            _figures(bound, "mape", "median", "lower_held") if bound else "",
        )
    if missing:
        yield f"\nNot scored: {'; '.join(missing)}."


def _figures(group: Mapping[str, Any], *names: str) -> str:
    """Those of the group's per cents that it has."""
    found = (group.get(f"{name}_percent") for name in names)
    return " / ".join(f"{value:g}" for value in found if value is not None)


def _marked(value: float, most: float | None) -> str:
    return f"**{value:g}**" if most is not None and value > most else f"{value:g}"


def _group(document: Mapping[str, Any], by: str, name: str) -> Mapping[str, Any] | None:
    alike = (one for one in document["groups"] if (one["by"], one["group"]) == (by, name))
    return next(alike, None)


def _refused(documents: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    document = documents.get("whole")
    if document:
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in document["refused"].items())
        yield (
            f"Of {document['rows']:,} rows {document['answered']:,} are answered; the others, by "
            f"reason: {reasons}."
        )


def _decisions(documents: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    yield "## The cheapest instance for a target\n"
    yield f"Exact / met / overspend, regret, as `benchmarks/decisions.py` defines them. Aims: {_MUST_DECIDE}."
    yield ""
    yield from heads("left out", *(rule.replace("_", " ") for rule in _RULES), "trials")
    for words, name in _DECISIONS:
        if name in documents:
            document = documents[name]
            yield row(words, *_choices(document))
            if document["refit_without"] is None:
                yield row(f"{words}, old form", *_choices(document["old_form"]))


def _choices(document: Mapping[str, Any]) -> list[str]:
    names = ("exact_percent", "met_percent", "overspend_percent", "regret_percent")
    rules = ([f"{document[rule][name]:.3g}" for name in names] for rule in _RULES)
    cells = [f"{' / '.join(figures[:3])}, {figures[3]}" for figures in rules]
    return [*cells, f"{document['trials_percent']:.0f} %"]


def _gains(documents: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    if not any(name in documents for _, name in _GAINS):
        return
    yield "## What compile, channels last and 16 bits change\n"
    yield "Pairs of rows that differ in one thing alone; what no answer shows is not scored. Errors of the"
    yield "gain, mean / median per cent, beside those of always answering the median gain of all pairs."
    yield "`held`: how often it reached its 90 % lower bound; `between`: how often it lay between both.\n"
    columns = ("change", "pairs", "median gain", "error", "always the median", "held", "between")
    yield from heads("left out", *columns)
    for words, name in _GAINS:
        groups = documents[name]["groups"] if name in documents else []
        for group in groups:
            if group["group"] in ("inference", "training"):
                yield row(words, *_gain(group))


def _gain(group: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        f"{group['change']}, {group['group']}",
        f"{group['n']:,}",
        f"{group['median_gain_percent']:+g} %",
        _figures(group, "mean", "median"),
        _figures(group, "always_the_median_mean", "always_the_median_median"),
        _figures(group, "lower_held"),
        _figures(group, "covered"),
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the page from the documents of a folder."""
    (folder,) = sys.argv[1:] if arguments is None else arguments
    names = [*PAGE, *(name for _, name in (*_DECISIONS, *_GAINS))]
    OUT.write_text(page(documents_in(Path(folder), names)))
    trust.main()


if __name__ == "__main__":
    main()
