"""`python -m benchmarks.decisions [--rows FILE]... [--refit-without network|gpu] [--json]`.

How often is the cheapest GPU found that reaches a target, and what does a miss cost? Questions are
made from measured rows: a cell is one source's network, input, task, precision, stack and batch on
two GPUs or more that a cloud sells; candidates are those GPUs, each at the price of the cheapest
instance with one of them in the bundled catalogue; targets are 0.5, 0.7, 0.9, 0.97 and 1.03 times
each candidate's measured rate. Of all such questions a thousand are drawn.

The chain chooses as the product does: the cheapest candidate whose lower bound (confidence 0.9)
reaches the target. With one trial it may measure one candidate first: the cheapest whose median
reaches the target, unless that is sure already. What the trial tells conditions the step times, so
that every candidate is answered anew.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from advisor.catalog import OfferQuery, load_catalog
from advisor.catalog.gpus import cheapest_by_gpu, usd_per_gpu_hour
from advisor.domain import Market
from benchmarks.truth.asking import Answer, RefusalError, ScoredModel
from benchmarks.truth.refits import Without, conditioned, refits
from benchmarks.truth.rows import Row, read_rows

SCHEMA = "advisor.decisions/1"
ROWS = Path(__file__).parents[1] / "infra/build/performance_sources/observations.csv.gz"
FRACTIONS = (0.5, 0.7, 0.9, 0.97, 1.03)
QUESTIONS = 1000
_SEED = 18
# So sure that a trial of it would tell nothing new; the bound tells 0.9.
_SURE = 0.99
_NORMAL_AT_90 = 1.2816


class Candidate(Struct, frozen=True):
    """A GPU for a question: its price, its measured rate, and what is predicted (None: nothing)."""

    gpu: str
    usd_per_hour: float
    measured: float
    answer: Answer | None
    row: Row

    def surely(self, target: float) -> bool:
        """Whether the product would take it for this target."""
        return self.answer is not None and self.answer.lower >= target

    def chance(self, target: float) -> float:
        """Probability that it reaches the target, lognormal on either side of the median."""
        if self.answer is None:
            return 0.0
        distance = math.log(self.answer.median / target)
        bound = self.answer.lower if distance > 0 else self.answer.upper
        width = max(abs(math.log(self.answer.median / bound)), 1e-6) / _NORMAL_AT_90
        return 0.5 * (1 + math.erf(distance / width / math.sqrt(2)))


class Question(Struct, frozen=True):
    """Which of the candidates (by price) is the cheapest that reaches the target?

    `learn` answers the candidates anew once one of them was measured.
    """

    candidates: tuple[Candidate, ...]
    target: float
    learn: Callable[[Candidate], tuple[Candidate, ...]] | None = None

    @property
    def best(self) -> Candidate | None:
        """The cheapest that was measured to reach it."""
        return next((candidate for candidate in self.candidates if candidate.measured >= self.target), None)

    def once_measured(self, tried: Candidate) -> Question:
        """The same question with what the trial told."""
        return replace(self, candidates=self.learn(tried)) if self.learn else self


class Choice(Struct, frozen=True):
    """What was chosen, None where nothing surely reaches the target, after so many trials."""

    chosen: Candidate | None
    trials: int = 0


def without_trial(question: Question) -> Choice:
    """The cheapest candidate whose lower bound reaches the target."""
    return Choice(_cheapest_sure(question))


def with_one_trial(question: Question) -> Choice:
    """As `without_trial`, with one measurement first where it could tell something.

    What is measured is the cheapest whose median reaches the target (or else the likeliest); then
    the cheapest is chosen that reaches it, of what is known now.
    """
    target = question.target
    tried = next((candidate for candidate in question.candidates if candidate.chance(target) >= 0.5), None)
    tried = tried or max(question.candidates, key=lambda candidate: candidate.chance(target))
    sure = _cheapest_sure(question)
    if (tried is sure and tried.chance(target) >= _SURE) or not tried.chance(target):
        return Choice(sure)
    for candidate in question.once_measured(tried).candidates:
        reaches = candidate.measured >= target if candidate.gpu == tried.gpu else candidate.surely(target)
        if reaches:
            return Choice(_same(question, candidate), 1)
    return Choice(None, 1)


def _same(question: Question, wanted: Candidate) -> Candidate:
    return next(candidate for candidate in question.candidates if candidate.gpu == wanted.gpu)


def _cheapest_sure(question: Question) -> Candidate | None:
    return next((candidate for candidate in question.candidates if candidate.surely(question.target)), None)


def figures(questions: Sequence[Question], choices: Sequence[Choice]) -> dict[str, float]:
    """Exact: the best was chosen, or rightly nothing. Met: of what was chosen, what reaches the
    target. Overspend: how much dearer than the best, where both are, 0 where it is cheaper."""
    pairs = list(zip(questions, (choice.chosen for choice in choices), strict=True))
    exact = [chosen == question.best for question, chosen in pairs]
    met = [chosen.measured >= question.target for question, chosen in pairs if chosen]
    over = [
        max(chosen.usd_per_hour / question.best.usd_per_hour - 1, 0.0)
        for question, chosen in pairs
        if chosen and question.best
    ]
    return {
        "exact_percent": _percent(exact),
        "met_percent": _percent(met),
        "overspend_percent": _percent(over),
        "nothing_chosen_percent": _percent([chosen is None for _, chosen in pairs]),
        "trials_per_question": round(sum(choice.trials for choice in choices) / len(choices), 3),
    }


def _percent(values: Sequence[float]) -> float:
    return round(100 * sum(values) / len(values), 2) if values else math.nan


def questions_of(rows: Sequence[Row], scored_model: ScoredModel) -> list[Question]:
    """All questions that the rows answer, without a prediction yet."""
    prices = single_gpu_prices()
    cells: dict[tuple[str, ...], dict[str, list[Candidate]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        try:
            _, gpu = scored_model.cell(row)
        except RefusalError:
            continue
        usd = _price(scored_model, row.gpu, prices)
        if usd:
            cells[_cell(row)][gpu.name].append(Candidate(gpu.name, usd, row.samples_per_second, None, row))
    return [question for cell in cells.values() for question in _questions(cell)]


class Predictor:
    """Answers questions by the step times that ship, or each candidate by a fit without its
    network or GPU; a trial conditions them."""

    def __init__(self, scored_model: ScoredModel, questions: Sequence[Question], without: str | None) -> None:
        """`without`: 'network', 'gpu' or None."""
        self._scored_model = scored_model
        rows = list(dict.fromkeys(candidate.row for each in questions for candidate in each.candidates))
        self._times = dict.fromkeys(rows, scored_model.model.step_times)
        if without:
            for indices, times in refits(scored_model, rows, Without(without)):
                self._times.update((rows[index], times) for index in indices)
        self._told: dict[tuple[Row, Row | None, float], Answer | None] = {}

    def answered(self, question: Question) -> Question:
        """The question with predictions."""
        candidates = question.candidates
        return replace(
            question, candidates=self._all(candidates, None), learn=lambda tried: self._all(candidates, tried)
        )

    def _all(self, candidates: Sequence[Candidate], tried: Candidate | None) -> tuple[Candidate, ...]:
        return tuple(replace(candidate, answer=self._answer(candidate, tried)) for candidate in candidates)

    def _answer(self, candidate: Candidate, tried: Candidate | None) -> Answer | None:
        key = (candidate.row, tried.row if tried else None, tried.measured if tried else 0.0)
        if key not in self._told:
            times = self._times[candidate.row]
            if tried:
                seconds = tried.row.batch_size / tried.measured
                times = conditioned(self._scored_model, [replace(tried.row, seconds=seconds)], times)
            (answer,) = self._scored_model.rates([candidate.row], times)
            self._told[key] = None if isinstance(answer, str) else answer
        return self._told[key]


def _cell(row: Row) -> tuple[str, ...]:
    return (
        row.source,
        row.network,
        row.input,
        row.task,
        row.precision,
        row.stack,
        row.memory_format,
        str(row.batch_size),
    )


def _questions(cell: Mapping[str, Sequence[Candidate]]) -> list[Question]:
    """Where a GPU was measured several times, its median counts."""
    candidates = [
        Candidate(
            same[0].gpu,
            same[0].usd_per_hour,
            median(candidate.measured for candidate in same),
            None,
            same[0].row,
        )
        for same in cell.values()
    ]
    if len(candidates) < 2:
        return []
    by_price = tuple(sorted(candidates, key=lambda candidate: (candidate.usd_per_hour, candidate.gpu)))
    return [
        Question(by_price, fraction * candidate.measured) for candidate in by_price for fraction in FRACTIONS
    ]


def single_gpu_prices() -> dict[str, float]:
    """US dollars an hour of the cheapest on-demand instance with one such GPU, anywhere; where
    only larger ones are sold, that instance's price over its GPUs."""
    offers = load_catalog().offers(OfferQuery(cloud="any", market=Market.ON_DEMAND))
    single = cheapest_by_gpu(offer for offer in offers if offer.instance.gpu_count == 1)
    every = cheapest_by_gpu(offer for offer in offers if offer.instance.gpu_count >= 1)
    return {name: usd_per_gpu_hour(offer) for name, offer in {**every, **single}.items()}


def _price(scored_model: ScoredModel, name: str, prices: Mapping[str, float]) -> float | None:
    """Of the very card, or else of the cheapest of its chip."""
    sheet = scored_model.sheet_name(name)
    if sheet is None or sheet in prices:
        return prices.get(sheet or "")
    alike = [usd for sold, usd in prices.items() if scored_model.chip(sold) == scored_model.chip(name)]
    return min(alike, default=None)


def decisions(rows: Sequence[Row], without: str | None) -> dict[str, Any]:
    """The benchmark's document."""
    scored_model = ScoredModel()
    found = questions_of(rows, scored_model)
    random.Random(_SEED).shuffle(found)
    drawn = found[:QUESTIONS]
    predictor = Predictor(scored_model, drawn, without)
    drawn = [predictor.answered(question) for question in drawn]
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "refit_without": without,
        "possible_questions": len(found),
        "questions": len(drawn),
    }
    for name, chain in (("without_trial", without_trial), ("with_one_trial", with_one_trial)):
        document[name] = figures(drawn, [chain(question) for question in drawn]) if drawn else {}
    return document


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the figures, as JSON or in words."""
    parser = argparse.ArgumentParser(prog="benchmarks.decisions", description=__doc__)
    parser.add_argument("--rows", type=Path, action="append", help="as benchmarks.truth takes them")
    parser.add_argument("--refit-without", choices=("network", "gpu"))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    read = [row for path in options.rows or [ROWS] for row in read_rows(path)]
    rows = [row for row in read if isinstance(row, Row) and row.seconds]
    document = decisions(rows, options.refit_without)
    if options.json:
        print(json.dumps(document, indent=1))
        return
    print(f"{document['questions']} of {document['possible_questions']} questions")
    for name in ("without_trial", "with_one_trial"):
        print(f"{name.replace('_', ' ')}: {document[name]}")


if __name__ == "__main__":
    main()
