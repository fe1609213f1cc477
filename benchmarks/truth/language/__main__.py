"""`python -m benchmarks.truth --language --rows FILE.csv.gz [--json] [--refit-without KIND]`.

Scores the serving predictor that ships on measured rows in the columns of
`infra/build/language_sources/serving.csv.gz`: errors and bounds of the time of a token, of the first token
and of the output rate, by group. With `--refit-without`, each row is scored by a fit, made as the shipped one
is made, without its GPU, model, models of its shape, engine or source; and again once 1, 3 or 5 rows of its
own cell were measured. `decisions` tells how often the choice that makes a token cheapest is found. With
`--tuning` the rows are those of `training.csv.gz`, each left out by its model's size, its GPU and its source.
Models, GPUs and engines that nobody knows are counted, not scored."""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from advisor.infra.build.fitting.tuning import Measured, gpu_group, left_out, measured_rows, model_group
from advisor.infra.build.language_sources.rows import (
    SERVING_PATH,
    TRAINING_PATH,
    ServingRow,
    TrainingRow,
    read_serving,
    read_table,
)
from advisor.infra.build.language_sources.sheets import bundled_gpu_facts
from advisor.models.language.finetuning.predictor import GPU, MODEL, bundled_finetuning_predictor
from advisor.models.language.finetuning.tuning import Run
from benchmarks.truth.language import decisions
from benchmarks.truth.language.asking import answers_of, scored, shipped
from benchmarks.truth.language.refits import KINDS, TRIALS, Answers, answers_without
from benchmarks.truth.language.scores import Bounds, RowAnswer, Scored, figures, grouped, tables

SCHEMA = "advisor.truth.language/1"
TUNING_SCHEMA = "advisor.truth.tuning/1"
_LEFT_OUT: Mapping[str, Callable[[Run], str]] = {
    "model size": model_group,
    "gpu": gpu_group,
    "source": lambda run: run.source,
}
# Of the largest rate that was measured of a deployment: up to here a queue does not grow.
_CAPACITY_SHARE = 0.8


class AnswersOfRows(NamedTuple):
    """Answers of rows by their places: by the number of trials, and after a decision's trial."""

    by_trials: dict[int, dict[int, RowAnswer | str]]
    after_choice: dict[int, RowAnswer | str]


def truth(rows: Sequence[ServingRow], kind: str | None = None, confidence: float = 0.9) -> dict[str, Any]:
    """The scorer's document of `rows`; `kind` is what is left out of the fit that answers."""
    answered = AnswersOfRows({count: {} for count in (0, *TRIALS)}, {})
    if kind is None:
        answered.by_trials[0].update(enumerate(answers_of(shipped(), rows, confidence)))
    else:
        for fold in answers_without(kind, rows, taught_rows(), confidence):
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
    held_back = {
        index: answers[index]
        for index, row in enumerate(rows)
        if index in answers and row.kind == "open"
        if row.requests_per_second_offered <= _CAPACITY_SHARE * capacity.get(_deployment(row), 0)
    }
    same = grouped(_scored(rows, held_back), lambda one: one.quantity)
    return {name: figures(same[name]) for name in ("ttft", "tpot") if name in same}


def _deployment(row: ServingRow) -> tuple[str, ...]:
    lengths = f"{row.input_tokens:.0f} {row.output_tokens:.0f}" if "tensorrt" in row.source else ""
    return (row.source, row.model, row.gpu, str(row.gpus), row.precision, lengths)


def tuning_truth(rows: Sequence[TrainingRow], confidence: float = 0.9) -> dict[str, Any]:
    """The scorer's document of rows of training, each predicted by a fit without its model's size, GPU or
    source, made as the shipped one is made; those of unknown GPUs are counted."""
    gpus = bundled_gpu_facts()
    known = measured_rows([row for row in rows if row.gpu in gpus], gpus)
    tables = []
    for name, group_of in _LEFT_OUT.items():
        found = _scored_runs(known, group_of, confidence)
        tables.append({"left_out": name, "by": "all", "group": "all", **figures(found)})
        for by in ("gpu", "model", "method", "kind", "hosts"):
            tables += [
                {"left_out": name, "by": by, "group": group, **figures(same)}
                for group, same in grouped(found, lambda row, by=by: row.groups[by]).items()
            ]
    return {
        "schema": TUNING_SCHEMA,
        "confidence": confidence,
        "rows": len(rows),
        "answered": len(known),
        "tables": tables,
    }


def _scored_runs(rows: Sequence[Measured], group_of: Callable[[Run], str], confidence: float) -> list[Scored]:
    found = left_out(rows, group_of)
    kind = GPU if group_of is gpu_group else MODEL
    widths = bundled_finetuning_predictor().widths(kind, confidence)
    rates = np.exp(-found.predicted)
    lower = rates * np.exp(-widths.lower * found.deviation)
    upper = rates * np.exp(widths.upper * found.deviation)
    return [
        Scored(
            {
                "gpu": row.run.tuning.gpu.name,
                "model": row.run.tuning.model.name,
                "method": str(row.run.tuning.method),
                "kind": "experts" if row.run.tuning.model.experts else "dense",
                "hosts": "one host" if row.run.tuning.gpus <= row.run.switched else "several",
            },
            "output_rate",
            row.tokens_per_second_per_gpu,
            Bounds(*map(float, bounds)),
            is_rate=True,
        )
        for row, *bounds in zip(rows, lower, rates, upper, strict=True)
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the scores."""
    parser = argparse.ArgumentParser(prog="benchmarks.truth --language", description=__doc__)
    parser.add_argument("--rows", type=Path, help="a CSV (or .csv.gz); else the committed rows")
    parser.add_argument("--tuning", action="store_true", help="rows are of training")
    parser.add_argument("--json", action="store_true", help="there is no other form")
    parser.add_argument("--refit-without", choices=KINDS)
    parser.add_argument("--confidence", type=float, default=0.9)
    options = parser.parse_args(arguments)
    if options.tuning:
        runs = read_table(TrainingRow, options.rows or TRAINING_PATH)
        print(json.dumps(tuning_truth(runs, options.confidence), indent=1))
        return
    rows = read_serving(options.rows or SERVING_PATH)
    print(json.dumps(truth(rows, options.refit_without, options.confidence), indent=1))


if __name__ == "__main__":
    main()
