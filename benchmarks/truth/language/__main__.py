"""`python -m benchmarks.truth --language --rows FILE.csv.gz [--json] [--refit-without KIND]`.

Scores the serving predictor that ships on measured rows in the columns of
`infra/build/language_sources/serving.csv.gz`: errors and bounds of the time of a token, of the first
token and of the output rate, by group. With `--refit-without`, each row is scored by a fit, made as
the shipped one is made, without its GPU, model, models of its shape, engine or source; and again
once 1, 3 or 5 rows of its own cell were measured. `decisions` tells how often the choice that makes
a token cheapest is found. With `--tuning` the rows are those of `training.csv.gz`, each left out by
its model's size, its GPU and its source. Models, GPUs and engines that nobody knows are counted,
not scored.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from advisor.infra.build.language_sources.rows import SERVING_PATH, ServingRow, read_serving, read_table
from advisor.infra.build.language_sources.training_rows import TRAINING_PATH, TrainingRow
from benchmarks.truth.language import decisions
from benchmarks.truth.language.asking import answers_of, scored, shipped
from benchmarks.truth.language.refits import KINDS, TRIALS, Answers, answers_without
from benchmarks.truth.language.scores import RowAnswer, Scored, figures, tables
from benchmarks.truth.language.tuning import tuning_truth

SCHEMA = "advisor.truth.language/1"
# Of the largest rate that was measured of a deployment: up to here a queue does not grow.
_CAPACITY_SHARE = 0.8


class AnswersOfRows(NamedTuple):
    """Answers of rows by their places: by the number of trials, and after a decision's trial."""

    by_trials: dict[int, dict[int, RowAnswer | str]]
    after_choice: dict[int, RowAnswer | str]


def truth(
    rows: Sequence[ServingRow], kind: str | None = None, confidence: float = 0.9, folder: Path | None = None
) -> dict[str, Any]:
    """The scorer's document of `rows`; `kind` is what is left out of the fit that answers, `folder`
    keeps finished fits."""
    answered = AnswersOfRows({count: {} for count in (0, *TRIALS)}, {})
    if kind is None:
        answered.by_trials[0].update(enumerate(answers_of(shipped(), rows, confidence)))
    else:
        for fold in answers_without(kind, rows, taught_rows(), confidence, folder):
            for count, answers in fold.by_trials.items():
                answered.by_trials[count].update(answers)
            answered.after_choice.update(fold.after_choice)
    return {"schema": SCHEMA, "refit_without": kind, "confidence": confidence} | document_of(rows, answered)


def taught_rows() -> list[ServingRow]:
    """What the shipped predictor was fitted on."""
    return [row for row in read_serving() if row.fit]


def document_of(rows: Sequence[ServingRow], answered: AnswersOfRows) -> dict[str, Any]:
    """The figures of answers."""
    answers = answered.by_trials[0]
    refused = Counter(answer for answer in answers.values() if isinstance(answer, str))
    found = _scored(rows, answers)
    return {
        "rows": len(rows),
        "answered": len(answers) - sum(refused.values()),
        "refused": dict(refused.most_common()),
        "tables": tables(found),
        "after_trials": [
            {"trials": count, **after}
            for count in TRIALS
            for after in _after_trials(rows, answers, answered.by_trials[count])
        ],
        "load": _load_figures(rows, answers),
        "decisions": decisions.figures_of(rows, answers, answered.after_choice),
    }


def _scored(rows: Sequence[ServingRow], answers: Answers) -> list[Scored]:
    return [
        one
        for index, answer in answers.items()
        if isinstance(answer, RowAnswer)
        for one in scored(rows[index], answer)
    ]


def _after_trials(rows: Sequence[ServingRow], before: Answers, after: Answers) -> Iterator[dict[str, Any]]:
    """Of each quantity the figures of the same rows without and with trials."""
    same = {index: before[index] for index in after}
    pairs = {"before": _scored(rows, same), "after": _scored(rows, after)}
    for quantity in ("tpot", "ttft", "output_rate"):
        chosen = {name: [one for one in found if one.quantity == quantity] for name, found in pairs.items()}
        if chosen["after"]:
            yield {"quantity": quantity, **{name: figures(found) for name, found in chosen.items()}}


def _load_figures(
    rows: Sequence[ServingRow], answers: Mapping[int, RowAnswer | str]
) -> dict[str, dict[str, Any]]:
    """Figures of TTFT and TPOT of open loops up to 80 % of the capacity that was measured."""
    capacity: dict[tuple[str, ...], float] = {}
    for row in rows:
        if row.kind == "open" and not math.isnan(row.requests_per_second):
            key = _deployment(row)
            capacity[key] = max(capacity.get(key, 0.0), row.requests_per_second)
    found = [
        one
        for index, row in enumerate(rows)
        if row.kind == "open"
        and row.requests_per_second_offered <= _CAPACITY_SHARE * capacity.get(_deployment(row), 0)
        and isinstance(answer := answers.get(index), RowAnswer)
        for one in scored(row, answer)
    ]
    return {
        name: figures(same)
        for name in ("ttft", "tpot")
        if (same := [one for one in found if one.quantity == name])
    }


def _deployment(row: ServingRow) -> tuple[str, ...]:
    lengths = f"{row.input_tokens:.0f} {row.output_tokens:.0f}" if "tensorrt" in row.source else ""
    return (row.source, row.model, row.gpu, str(row.gpus), row.precision, lengths)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the scores."""
    parser = argparse.ArgumentParser(prog="benchmarks.truth --language", description=__doc__)
    parser.add_argument("--rows", type=Path, help="a CSV (or .csv.gz); else the committed rows")
    parser.add_argument("--tuning", action="store_true", help="rows are of training")
    parser.add_argument("--json", action="store_true", help="there is no other form")
    parser.add_argument("--refit-without", choices=KINDS)
    parser.add_argument("--confidence", type=float, default=0.9)
    parser.add_argument("--keep-in", type=Path, help="a folder of finished fits, to go on from")
    options = parser.parse_args(arguments)
    if options.tuning:
        runs = read_table(TrainingRow, options.rows or TRAINING_PATH)
        print(json.dumps(tuning_truth(runs, options.confidence), indent=1))
        return
    rows = read_serving(options.rows or SERVING_PATH)
    document = truth(rows, options.refit_without, options.confidence, options.keep_in)
    print(json.dumps(document, indent=1))


if __name__ == "__main__":
    main()
