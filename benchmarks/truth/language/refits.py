"""Answers of the serving predictor refitted without what is asked, two fits at a time."""

from __future__ import annotations

import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from typing import NamedTuple

from advisor.infra.build.language_sources.rows import ServingRow
from advisor.models.language.serving import ServingPredictor
from benchmarks.truth.language import decisions
from benchmarks.truth.language.asking import answers_of, conditioned, groups_of, refitted
from benchmarks.truth.language.scores import RowAnswer

KINDS = ("gpu", "model", "shape", "engine", "source")
TRIALS = (1, 3, 5)
_PROCESSES = 2
_ALONE = 20  # rows from which a group is left out by itself; smaller ones go together
_LEAST_REST = 5  # rows that a cell must have beside its trials
_SEED = 21

# A row's answer, or in words why there is none; by the row's place.
Answers = Mapping[int, RowAnswer | str]


class Fold(NamedTuple):
    """Groups of one kind that a fit leaves out together."""

    kind: str
    names: tuple[str, ...]

    def has(self, row: ServingRow) -> bool:
        """Whether the row is left out of the fit, and scored by it."""
        return groups_of(row)[self.kind] in self.names


class Task(NamedTuple):
    """What one process does: fit `taught` without the fold, and answer the fold's rows."""

    fold: Fold
    rows: Sequence[ServingRow]
    taught: Sequence[ServingRow]
    confidence: float


class FoldAnswers(NamedTuple):
    """Answers by the number of trials of a row's cell that the fit was conditioned on; and, for the
    rows of a decision, once the choice that seemed cheapest was measured."""

    fold: Fold
    by_trials: Mapping[int, Answers]
    after_choice: Answers


def folds_of(rows: Sequence[ServingRow], kind: str) -> list[Fold]:
    """Each group with twenty rows alone; the smaller ones in one fold."""
    counts = Counter(groups_of(row)[kind] for row in rows)
    large = sorted(name for name, count in counts.items() if count >= _ALONE)
    small = tuple(sorted(set(counts) - set(large)))
    return [Fold(kind, (name,)) for name in large] + ([Fold(kind, small)] if small else [])


def answers_without(
    kind: str, rows: Sequence[ServingRow], taught: Sequence[ServingRow], confidence: float
) -> Iterator[FoldAnswers]:
    """Every fold's answers."""
    tasks = [Task(fold, rows, taught, confidence) for fold in folds_of(rows, kind)]
    with ProcessPoolExecutor(_PROCESSES, mp_context=get_context("spawn")) as pool:
        for number, future in enumerate(as_completed(pool.submit(fold_answers, task) for task in tasks), 1):
            names = ", ".join(future.result().fold.names)
            sys.stderr.write(f"fit {number} of {len(tasks)}: without {names}\n")
            yield future.result()


def fold_answers(task: Task) -> FoldAnswers:
    """One fit without the fold, its answers, and those after trials of each cell."""
    predictor = refitted([row for row in task.taught if not task.fold.has(row)])
    indices = [index for index, row in enumerate(task.rows) if task.fold.has(row)]
    rows = [task.rows[index] for index in indices]
    by_trials: dict[int, dict[int, RowAnswer | str]] = {
        0: dict(zip(indices, answers_of(predictor, rows, task.confidence), strict=True))
    }
    for count in TRIALS:
        by_trials[count] = {}
        for cell in _cells(task.rows, indices):
            if len(cell) < count + _LEAST_REST:
                continue
            tried = random.Random(f"{_SEED} {cell[0]}").sample(cell, count)
            rest = [index for index in cell if index not in tried]
            known = conditioned(predictor, [task.rows[index] for index in tried])
            answered = answers_of(known, [task.rows[index] for index in rest], task.confidence)
            by_trials[count].update(zip(rest, answered, strict=True))
    return FoldAnswers(task.fold, by_trials, _after_choice(task, predictor, by_trials[0]))


def _after_choice(task: Task, predictor: ServingPredictor, answers: Answers) -> Answers:
    """Where the fold has all choices of a decision: what is answered once the first was tried."""
    found: dict[int, RowAnswer | str] = {}
    for case in decisions.cases_of(task.rows):
        tried = decisions.chosen(case, answers)
        if tried is None or any(choice.index not in answers for choice in case):
            continue
        known = conditioned(predictor, [task.rows[tried.index]])
        rest = [choice.index for choice in case if choice != tried]
        answered = answers_of(known, [task.rows[index] for index in rest], task.confidence)
        found.update(zip(rest, answered, strict=True))
    return found


def _cells(rows: Sequence[ServingRow], indices: Sequence[int]) -> list[list[int]]:
    """Closed loops of one model on one GPU in one engine: what a user's own trials are of."""
    cells: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for index in indices:
        row = rows[index]
        if row.fit and row.kind == "closed" and row.tpot_seconds > 0:
            cells[row.model, row.gpu, row.engine].append(index)
    return list(cells.values())
