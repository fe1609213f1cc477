"""`advisor sweep simulate`, only available in a checkout: replays the search on a measured table."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from advisor.cli.printing import print_answer
from advisor.cli.questions import output_option, question_options
from advisor.errors import UsageError
from advisor.questions.fields import RATE, File, Files, Flag, Parsed, Text
from advisor.questions.question import Needed, Question, ask
from advisor.render.text import table
from advisor.runs.fields import parse_budget

if TYPE_CHECKING:
    from advisor.infra.build.search.simulation import Simulation


def _trials(text: str) -> int:
    trials = parse_budget(text).trials
    if trials is None:
        raise UsageError(f"a table has no clock: --budget takes trials here, not '{text}'")
    return trials


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise UsageError(f"--seed takes a whole number from 0 on, not '{text}'", field="seed")
    return int(text)


_COLUMN = Text("COLUMN")


class Simulated(Question):
    """The question of `advisor sweep simulate`."""

    table: Path = ask("CSV: columns of the configuration, then cost or duration.", File(), default=Needed)
    history: tuple[Path, ...] = ask(
        "Table of other workloads with the same columns. Repeatable.", Files(), default=()
    )
    workload: str | None = ask("Workload, if the table has several.", Text("NAME"))
    budget: int = ask("Most trials.", Parsed(_trials, "{}trials".format, "AMOUNT"), default=10)
    target_throughput: float | None = ask("Find the cheapest configuration that reaches this rate.", RATE)
    seed: int = ask("Tie-breaker.", Parsed(_seed, str, "NUMBER"), "0", default=0)
    no_stop: bool = ask("Ignore the stopping rule.", Flag(), default=False)
    cost: str | None = ask("Column: cost of a run.", _COLUMN)
    seconds: str | None = ask("Column: duration in seconds.", _COLUMN)
    price: str | None = ask("Column: price per hour.", _COLUMN)
    throughput: str | None = ask("Column: throughput.", _COLUMN)
    status: str | None = ask("Column: success (ok, true, yes or 1).", _COLUMN)
    ignore: str | None = ask("Columns that are not part of the configuration.", Text("COLUMNS"))


@click.command()
@question_options(Simulated)
@output_option
def simulate(question: Simulated, output: str) -> None:
    """Replay the search for the cheapest configuration on a table of measured runs.

    \b
    advisor sweep simulate --table runs.csv --budget 10trials
    advisor sweep simulate --table all.csv --workload resnet50 --target-throughput 500
    """
    from advisor.infra.build.search.simulation import Columns, simulate_search

    simulation = simulate_search(
        (question.table, *question.history),
        columns=Columns(
            cost=question.cost,
            seconds=question.seconds,
            price=question.price,
            throughput=question.throughput,
            status=question.status,
            ignored=tuple(word.strip() for word in (question.ignore or "").split(",") if word.strip()),
        ),
        workload=question.workload,
        target=question.target_throughput,
        trials=question.budget,
        seed=question.seed,
        stops=not question.no_stop,
    )
    print_answer(output, _document(simulation), lambda: _lines(simulation))


def _lines(simulation: Simulation) -> list[str]:
    configurations = [
        [
            "" if value is None else value if isinstance(value, str) else f"{value:g}"
            for value in configuration
        ]
        for configuration in simulation.configurations
    ]
    cells = [
        (
            str(number),
            *configurations[step.index],
            "failed" if step.log_cost is None else f"{math.exp(step.log_cost):.4g}",
            "-" if step.expected_saving is None else _percent(step.expected_saving),
            "-" if math.isinf(step.regret) else _percent(step.regret),
        )
        for number, step in enumerate(simulation.replay.steps, 1)
    ]
    header = ("trial", *simulation.names, "cost", "expected saving", "above cheapest")
    right = (0, *range(len(header) - 3, len(header)))
    return [*table(header, cells, right=right), "", _summary(simulation)]


def _summary(simulation: Simulation) -> str:
    count, steps = len(simulation.configurations), simulation.replay.steps
    others = f"{simulation.history} other workloads" if simulation.history else "no other"
    last = steps[-1].regret if steps else math.inf
    end = (
        "Nothing that works was found"
        if math.isinf(last)
        else ("The cheapest was found" if last <= 0 else f"The best found costs {_percent(last)} too much")
    )
    tried = f"{len(steps)} of {count} configurations tried"
    return f"{end}: {tried}, knowing {others}.\nStopped: {simulation.replay.stopped}."


def _document(simulation: Simulation) -> dict[str, Any]:
    steps = [
        {
            "configuration": dict(zip(simulation.names, simulation.configurations[step.index], strict=True)),
            "cost": None if step.log_cost is None else math.exp(step.log_cost),
            "expected_saving": step.expected_saving,
            "regret": None if math.isinf(step.regret) else step.regret,
        }
        for step in simulation.replay.steps
    ]
    return {
        "schema": "advisor.sweep-simulation/1",
        "workload": simulation.workload,
        "configurations": len(simulation.configurations),
        "other_workloads": simulation.history,
        "cheapest_cost": simulation.cheapest,
        "trials": steps,
        "stopped": simulation.replay.stopped,
    }


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
