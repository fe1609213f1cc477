"""`python -m benchmarks.decisions [--rows FILE]... [--refit-without network|gpu] [--settings] [--json]`.

How often is the cheapest GPU chosen that reaches a target, and what does a wrong choice cost?

A cell is what one source measured in one way (network, input, task, precision, stack, layout, batch,
software) of three GPUs or more that are sold. Each costs as much as the cheapest instance with one of them in
the bundled catalogue, on demand, as its seller lists it (kind `list`; what was seen on marketplaces is
another). A question draws a cell and a target, log-uniform from 0.4 times the slowest to 1.05 times the
fastest rate of the cell; at most 30 % are of one source.

Policies choose by the same answers: `bound` the cheapest whose lower bound reaches the target, `median` the
cheapest whose median does, `expected` as the product does. With a trial, the one that the product says is
worth most (where nothing is chosen, the greatest chance for a dollar) is measured first, unless it tells
nothing; it conditions the step times, which answer every candidate anew. `gpu_bound` are the questions whose
steps all take longer than their launching, which is the source's host. `old_form` has two candidates or more,
any on-demand price, and targets of 0.5 to 1.03 times each candidate's rate.

The best is the cheapest that was measured to reach the target. Exact: chosen was one that reaches it and
costs no more, or nothing where nothing does. Met: of what was chosen, what reaches it. Of the questions that
have a best, in the mean: overspend is how much dearer the chosen one is, 0 where cheaper; regret the same of
all that is paid, where a miss costs MISS_COST times its price and then the best (nothing chosen: MISS_COST
times the best, and the best).

`--settings`: in how many cells of one GPU measured in 16 and 32 bits, or in both layouts, `auto` takes the
fastest, 2 % being equal. Pure fp16 on a GPU without tensor cores is no setting to take unasked."""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from advisor.catalog import OfferQuery, load_catalog
from advisor.catalog.gpus import cheapest_by_gpu, usd_per_gpu_hour
from advisor.domain import Gpu, Market, MemoryFormat, Precision
from advisor.domain.decision import MISS_COST, expected_cost
from advisor.engine.borderline import LEAST_CHANCE, worth_of_trial
from advisor.engine.limits import chances_of_reaching
from benchmarks.truth.asking import Answer, RefusalError, ScoredModel, is_gpu_bound
from benchmarks.truth.refits import Without, conditioned, refits
from benchmarks.truth.rows import Row, read_rows

SCHEMA = "advisor.decisions/2"
ROWS = Path(__file__).parents[1] / "infra/build/performance_sources/observations.csv.gz"
OLD_FRACTIONS = (0.5, 0.7, 0.9, 0.97, 1.03)
QUESTIONS = 1000
MOST_OF_A_SOURCE = 300
CONFIDENCE, EVEN = 0.9, 0.5
# So sure that a trial would tell nothing new.
_SURE = 0.99
_SEED = 18
_CELL = ("source", "network", "input", "task", "precision", "stack", "memory_format", "batch_size")
_SOFTWARE = ("tf32", "software")


class Candidate(Struct, frozen=True):
    """A GPU for a question: its price, its measured rate, and what is predicted (None: nothing)."""

    gpu: str
    usd_per_hour: float
    measured: float
    answer: Answer | None
    row: Row


class Question(Struct, frozen=True):
    """Which of the candidates (by price) is the cheapest that reaches the target?

    `learn` answers the question anew once a candidate was measured."""

    candidates: tuple[Candidate, ...]
    target: float
    learn: Callable[[Candidate], Question] | None = None

    @property
    def best(self) -> Candidate | None:
        """The cheapest that was measured to reach it."""
        return next((candidate for candidate in self.candidates if candidate.measured >= self.target), None)

    def chance(self, candidate: Candidate) -> float:
        """Probability that a candidate reaches the target, as the product tells it."""
        if (answer := candidate.answer) is None:
            return 0.0
        rates = (np.array([rate]) for rate in (answer.lower, answer.median, answer.upper))
        return float(chances_of_reaching(*rates, CONFIDENCE, self.target)[0])

    def likely(self, chance: float) -> list[Candidate]:
        """The candidates of such a chance or a greater one."""
        return [candidate for candidate in self.candidates if self.chance(candidate) >= chance]

    def _worth(self, candidate: Candidate) -> float:
        """What a trial of it is worth, in dollars of an hour; of what is unlikely, nothing."""
        chosen, chance, usd = expected(self), self.chance(candidate), candidate.usd_per_hour
        if chosen is None:
            return chance / usd
        if candidate is chosen:
            return worth_of_trial(usd, chance) if chance < _SURE else 0.0
        rank = expected_cost(chosen.usd_per_hour, self.chance(chosen))
        return worth_of_trial(usd, chance, rank) if chance >= LEAST_CHANCE else 0.0

    def after_trial(self) -> Question:
        """The question once the candidate whose trial is worth most was measured; the same where none is."""
        tried = max(self.candidates, key=self._worth)
        if not 0 < self.chance(tried) < _SURE or self._worth(tried) <= 0:
            return self
        learnt = self.learn(tried) if self.learn else self
        rate = Answer(tried.measured, tried.measured, tried.measured)
        known = (replace(each, answer=rate) if each.gpu == tried.gpu else each for each in learnt.candidates)
        return replace(learnt, candidates=tuple(known))


def expected(question: Question) -> Candidate | None:
    """What costs least with its misses mended, of those with an even chance."""

    def cost(candidate: Candidate) -> float:
        return expected_cost(candidate.usd_per_hour, question.chance(candidate))

    return min(question.likely(EVEN), key=cost, default=None)


Policy = Callable[[Question], Candidate | None]
POLICIES: Mapping[str, Policy] = {
    "bound": lambda question: next(iter(question.likely(CONFIDENCE)), None),
    "median": lambda question: next(iter(question.likely(EVEN)), None),
    "expected": expected,
}


def figures(questions: Sequence[Question], policy: Policy) -> dict[str, float]:
    """What the policy's choices come to, as the module's docstring defines it."""
    exact, met, overspend, regret, nothing = [], [], [], [], []
    for question in questions:
        best, chosen = question.best, policy(question)
        reaches = chosen is not None and chosen.measured >= question.target
        nothing.append(chosen is None)
        met += [reaches] if chosen else []
        if best is None:
            exact.append(chosen is None)
            continue
        dearer = (chosen or best).usd_per_hour / best.usd_per_hour - 1
        exact.append(reaches and dearer <= 0)
        overspend += [max(dearer, 0.0)] if chosen else []
        regret.append(dearer if reaches else MISS_COST * (dearer + 1))
    return {
        "exact_percent": _percent(exact),
        "met_percent": _percent(met),
        "overspend_percent": _percent(overspend),
        "regret_percent": _percent(regret),
        "nothing_chosen_percent": _percent(nothing),
    }


def _percent(values: Sequence[float]) -> float:
    return round(100 * sum(values) / len(values), 2) if values else math.nan


def side_by_side(questions: Sequence[Question]) -> dict[str, Any]:
    """Each policy's figures for the same questions, without a trial and with one."""
    tried = [question.after_trial() for question in questions]
    trials = [after is not before for after, before in zip(tried, questions, strict=True)]
    return {
        "questions": len(questions),
        "trials_percent": _percent(trials),
        **{name: figures(questions, policy) for name, policy in POLICIES.items()},
        **{f"{name}_with_trial": figures(tried, policy) for name, policy in POLICIES.items()},
    }


class Predictor:
    """Answers by the step times that ship, or each candidate by a fit without its network or GPU."""

    def __init__(self, scored_model: ScoredModel, questions: Sequence[Question], without: str | None) -> None:
        """`without`: 'network', 'gpu' or None."""
        self._scored_model = scored_model
        rows = list(dict.fromkeys(candidate.row for each in questions for candidate in each.candidates))
        self._times = dict.fromkeys(rows, scored_model.model.step_times)
        if without:
            for indices, times in refits(scored_model, rows, Without(without)):
                self._times.update((rows[index], times) for index in indices)
        self._answers: dict[tuple[Row, Row | None, float], Answer | None] = {}

    def answered(self, question: Question, tried: Candidate | None = None) -> Question:
        """The question with predictions, by what a trial told too."""
        answers = (replace(each, answer=self._answer(each, tried)) for each in question.candidates)
        return Question(tuple(answers), question.target, lambda trial: self.answered(question, trial))

    def _answer(self, candidate: Candidate, tried: Candidate | None) -> Answer | None:
        key = (candidate.row, tried.row if tried else None, tried.measured if tried else 0.0)
        if key not in self._answers:
            times = self._times[candidate.row]
            if tried:
                seconds = tried.row.batch_size / tried.measured
                times = conditioned(self._scored_model, [replace(tried.row, seconds=seconds)], times)
            (answer,) = self._scored_model.rates([candidate.row], times)
            self._answers[key] = None if isinstance(answer, str) else answer
        return self._answers[key]


Cell = tuple[Candidate, ...]


def cells_of(
    rows: Iterable[Row], scored_model: ScoredModel, fields: Sequence[str], prices: Mapping[str, float]
) -> list[Cell]:
    """Candidates by price, not predicted yet, of rows that are alike in these fields, with median rates."""
    cells: dict[tuple[Any, ...], dict[str, list[Candidate]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        gpu = _gpu(scored_model, row)
        usd = gpu and _price(scored_model, row.gpu, prices)
        if gpu and usd:
            key = tuple(getattr(row, name) for name in fields)
            cells[key][gpu.name].append(Candidate(gpu.name, usd, row.samples_per_second, None, row))
    return [
        tuple(sorted(map(_usual, cell.values()), key=lambda each: (each.usd_per_hour, each.gpu)))
        for cell in cells.values()
    ]


def _usual(same: Sequence[Candidate]) -> Candidate:
    return replace(same[0], measured=statistics.median(each.measured for each in same))


def _gpu(scored_model: ScoredModel, row: Row) -> Gpu | None:
    try:
        return scored_model.cell(row)[1]
    except RefusalError:
        return None


def natural_questions(cells: Sequence[Cell]) -> list[Question]:
    """A thousand, or as many as the share of each source allows."""
    draw, counts = random.Random(_SEED), Counter[str]()
    questions: list[Question] = []
    while cells and len(questions) < QUESTIONS:
        cell = draw.choice(cells)
        rates = [candidate.measured for candidate in cell]
        target = math.exp(draw.uniform(math.log(0.4 * min(rates)), math.log(1.05 * max(rates))))
        questions.append(Question(cell, target))
        counts[cell[0].row.source] += 1
        cells = [cell for cell in cells if counts[cell[0].row.source] < MOST_OF_A_SOURCE]
    return questions


def old_questions(cells: Iterable[Cell]) -> list[Question]:
    """As many, drawn of all whose target is close to a candidate's rate."""
    pairs = ((cell, candidate) for cell in cells for candidate in cell)
    questions = [Question(cell, share * each.measured) for cell, each in pairs for share in OLD_FRACTIONS]
    random.Random(_SEED).shuffle(questions)
    return questions[:QUESTIONS]


def single_gpu_prices(*kinds: str) -> dict[str, float]:
    """US dollars an hour of the cheapest on-demand instance with one such GPU, anywhere; where only larger
    ones are sold, that instance's price over its GPUs. `kinds` of price; none: any."""
    offers = load_catalog().offers(OfferQuery(cloud="any", market=Market.ON_DEMAND, price_kinds=kinds))
    single = cheapest_by_gpu(offer for offer in offers if offer.instance.gpu_count == 1)
    every = cheapest_by_gpu(offer for offer in offers if offer.instance.gpu_count >= 1)
    return {name: usd_per_gpu_hour(offer) for name, offer in {**every, **single}.items()}


def _price(scored_model: ScoredModel, name: str, prices: Mapping[str, float]) -> float | None:
    """Of the very card, or else of the cheapest of its chip."""
    gpu = scored_model.gpu(name)
    if gpu is None or gpu.name in prices:
        return prices.get(gpu.name) if gpu else None
    alike = [usd for sold, usd in prices.items() if scored_model.chip(sold) == scored_model.chip(name)]
    return min(alike, default=None)


def decisions(rows: Sequence[Row], without: str | None) -> dict[str, Any]:
    """The benchmark's document."""
    scored_model = ScoredModel()
    cells = cells_of(rows, scored_model, (*_CELL, *_SOFTWARE), single_gpu_prices("list"))
    old_cells = cells_of(rows, scored_model, _CELL, single_gpu_prices())
    new = natural_questions([cell for cell in cells if len(cell) > 2])
    old = old_questions(cell for cell in old_cells if len(cell) > 1)
    predictor = Predictor(scored_model, [*new, *old], without)
    new, old = ([predictor.answered(question) for question in questions] for questions in (new, old))
    bound = [each for each in new if all(is_gpu_bound(scored_model, c.row) for c in each.candidates)]
    return {
        "schema": SCHEMA,
        "refit_without": without,
        "sources": Counter(question.candidates[0].row.source for question in new),
        **side_by_side(new),
        "gpu_bound": side_by_side(bound),
        "old_form": side_by_side(old),
    }


def settings(rows: Iterable[Row]) -> dict[str, Any]:
    """Of how many cells `auto` takes the fastest setting, of those where its own was measured, and the
    networks where it does not."""
    scored_model = ScoredModel()
    fields = [name for name in (*_CELL, *_SOFTWARE) if name not in ("precision", "memory_format")]
    cells: dict[tuple[Any, ...], dict[tuple[bool, str], list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        gpu = _gpu(scored_model, row)
        if gpu and (row.precision != "fp16" or (gpu.capability or 0) >= 7):
            key = (gpu.name, *(getattr(row, name) for name in fields))
            cells[key][row.precision == "fp32", row.memory_format].append(row)
    right: list[bool] = []
    missed: dict[str, list[str]] = defaultdict(list)
    several = [cell for cell in cells.values() if len(cell) > 1]
    for cell in several:
        rates = {
            setting: statistics.median(row.samples_per_second for row in same)
            for setting, same in cell.items()
        }
        row = next(iter(cell.values()))[0]
        taken = _auto(scored_model, row)
        if taken not in rates:
            continue
        right.append(rates[taken] >= max(rates.values()) / 1.02)
        if not right[-1]:
            missed[f"{row.gpu}, {row.task}"].append(row.network)
    return {
        "cells": len(several),
        "auto_measured": len(right),
        "fastest_percent": _percent(right),
        "missed": missed,
    }


def _auto(scored_model: ScoredModel, row: Row) -> tuple[bool, str] | None:
    """Whether `auto` takes fp32, and which memory format, for a row's network on its GPU; None where the row
    cannot be asked."""
    try:
        workload, gpu = scored_model.cell(row)
    except RefusalError:
        return None
    plain = replace(workload, precision=Precision.FP32, memory_format=MemoryFormat.CONTIGUOUS)
    (taken,) = scored_model.model.usual_settings(
        plain, [gpu], precision=True, memory_format=True, smallest_batch=row.batch_size
    )
    return taken.precision is Precision.FP32, str(taken.memory_format)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the figures, as JSON or a line each."""
    parser = argparse.ArgumentParser(prog="benchmarks.decisions", description=__doc__)
    parser.add_argument("--rows", type=Path, action="append", help="as benchmarks.truth takes them")
    parser.add_argument("--refit-without", choices=("network", "gpu"))
    parser.add_argument("--settings", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    read = [row for path in options.rows or [ROWS] for row in read_rows(path)]
    rows = [row for row in read if isinstance(row, Row) and row.seconds]
    document = settings(rows) if options.settings else decisions(rows, options.refit_without)
    lines = [json.dumps(document, indent=1)] if options.json else [f"{k}: {v}" for k, v in document.items()]
    print("\n".join(lines))


if __name__ == "__main__":
    main()
