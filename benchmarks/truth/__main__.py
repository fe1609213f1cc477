"""`python -m benchmarks.truth --rows FILE.csv [--json] [--refit-without KIND]`.

Scores the predictor that ships on measured rows, by the call that `advisor predict` makes. With
`--refit-without`, each row is scored by a fit without its network, family, GPU, (GPU, precision),
architecture of GPUs, source, family and GPU at once, or batch size, made by the command that makes the one
that ships. `--keep kernels` and `--keep probes` leave what is known of such a GPU when its kernels, or six
networks, were measured; `--anchor` is a user's own measurement on another GPU. Each row is asked under its
own protocol (what the step did, how old its PyTorch was); `--source-told` says who measured, too. `--gains`
scores what a change of stack, layout or precision is said to bring. With `--language` the rows are of
language models, and `python -m benchmarks.truth --language --help` has the options."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.truth import gains
from benchmarks.truth.asking import Answer, ScoredModel, groups
from benchmarks.truth.language.__main__ import main as language
from benchmarks.truth.refits import KEEPS, KINDS, Without, answers_of
from benchmarks.truth.rows import Row, read_rows
from benchmarks.truth.scores import Scored, groups_of, memory_groups

SCHEMA = "advisor.truth/1"


def truth(
    rows: Sequence[Row | str],
    without: Without | None = None,
    confidence: float = 0.9,
    *,
    tells_source: bool = False,
) -> dict[str, Any]:
    """The scorer's document of `rows`; words in place of a row are why it was not asked. What a refit leaves
    out does not concern peaks of memory."""
    scored_model = ScoredModel(confidence=confidence, tells_source=tells_source)
    refused, unknown = Counter(row for row in rows if isinstance(row, str)), Counter[str]()

    def scored(several: Sequence[Row], answers: Sequence[Answer | str], quantity: str) -> list[Scored]:
        found = []
        for row, answer in zip(several, answers, strict=True):
            if isinstance(answer, Answer):
                found.append(Scored(groups(scored_model, row), getattr(row, quantity), answer))
                continue
            refused[answer] += 1
            if answer in ("GPU unknown", "network unknown"):
                unknown[f"{answer}: {row.gpu if answer.startswith('GPU') else row.network}"] += 1
        return found

    known_rows = [row for row in rows if isinstance(row, Row)]
    steps = [row for row in known_rows if row.seconds is not None]
    peaks = [] if without else [row for row in known_rows if row.memory_mib]
    answers = answers_of(scored_model, steps, without) if without else scored_model.rates(steps)
    rates = scored(steps, answers, "samples_per_second")
    memory = scored(peaks, scored_model.peaks(peaks), "memory_mib")
    return {
        "schema": SCHEMA,
        "refit_without": str(without) if without else None,
        "confidence": confidence,
        "rows": len(rows),
        "answered": len(rates),
        "answered_memory": len(memory),
        "refused": dict(refused.most_common()),
        "unknown": dict(unknown.most_common()),
        "groups": groups_of(rates, without.alike if without else "family") + memory_groups(memory),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the scores."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if "--language" in given:
        given.remove("--language")
        language(given)
        return
    parser = argparse.ArgumentParser(prog="benchmarks.truth", description=__doc__)
    parser.add_argument("--rows", type=Path, required=True, help="a CSV (or .csv.gz) of rows")
    parser.add_argument("--json", action="store_true", help="there is no other form")
    parser.add_argument("--refit-without", choices=KINDS)
    parser.add_argument("--keep", choices=KEEPS, help="of a GPU that is left out")
    parser.add_argument(
        "--anchor", action="store_true", help="with one row of the network that is left out, on another GPU"
    )
    parser.add_argument("--confidence", type=float, default=0.9)
    parser.add_argument(
        "--gains",
        action="store_true",
        help="score what a change of stack, layout or precision is said to bring",
    )
    parser.add_argument(
        "--source-told",
        action="store_true",
        help="tell who measured: what somebody knows who has another GPU under the same script",
    )
    options = parser.parse_args(given)
    wrong = (options.keep and options.refit_without != "gpu") or (
        options.anchor and options.refit_without != "network"
    )
    if wrong:
        parser.error("--keep goes with --refit-without gpu, --anchor with --refit-without network")
    if options.source_told and (options.gains or not options.refit_without):
        parser.error("--source-told goes with --refit-without, and not with --gains")
    kind = options.refit_without
    without = Without(kind, options.keep, options.anchor) if kind else None
    rows = read_rows(options.rows)
    if options.gains:
        document = gains.gains(rows, without, options.confidence)
    else:
        document = truth(rows, without, options.confidence, tells_source=options.source_told)
    print(json.dumps(document, indent=1))


if __name__ == "__main__":
    main()
