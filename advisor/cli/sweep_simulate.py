"""`advisor sweep simulate`: the search played on a measured table."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from advisor.cli.questions import output_option
from advisor.errors import UsageError
from advisor.quantities import parse_positive
from advisor.render.text import table
from models.search.simulation import Columns, Simulation, simulate_search

if TYPE_CHECKING:
    from models.search import Step


@click.command()
@click.option(
    "--table", "path", required=True, metavar="FILE", type=click.Path(path_type=Path),
    help="CSV: columns of the configuration, then cost or duration.",
)  # fmt: skip
@click.option(
    "--history", metavar="FILE", multiple=True, type=click.Path(path_type=Path),
    help="Table of other workloads with the same columns. Repeatable.",
)  # fmt: skip
@click.option("--workload", metavar="NAME", help="Workload, if the table has several.")
@click.option(
    "--budget", metavar="AMOUNT", default="10trials", show_default=True, help="Most trials."
)
@click.option(
    "--target-throughput",
    metavar="RATE",
    help="Find the cheapest configuration that reaches this rate.",
)
@click.option("--seed", metavar="NUMBER", default="0", show_default=True, help="Tie-breaker.")
@click.option("--no-stop", is_flag=True, help="Ignore the stopping rule.")
@click.option("--cost", metavar="COLUMN", help="Column: cost of a run.")
@click.option("--seconds", metavar="COLUMN", help="Column: duration in seconds.")
@click.option("--price", metavar="COLUMN", help="Column: price per hour.")
@click.option("--throughput", metavar="COLUMN", help="Column: throughput.")
@click.option("--status", metavar="COLUMN", help="Column: success (ok, true, yes or 1).")
@click.option(
    "--ignore",
    metavar="COLUMNS",
    default="",
    help="Columns that are not part of the configuration.",
)
@output_option
def simulate(path: Path, history: tuple[Path, ...], output: str, **asked: Any) -> None:
    """Replay the search for the cheapest configuration on a table of measured runs.

    \b
    advisor sweep simulate --table runs.csv --budget 10trials
    advisor sweep simulate --table all.csv --workload resnet50 --target-throughput 500
    """
    target = asked["target_throughput"]
    found = simulate_search(
        (path, *history),
        columns=Columns(
            **{name: asked[name] for name in ("cost", "seconds", "price", "throughput", "status")},
            ignored=tuple(word.strip() for word in asked["ignore"].split(",") if word.strip()),
        ),
        workload=asked["workload"],
        target=parse_positive(target, "--target-throughput") if target else None,
        trials=_trials(asked["budget"]),
        seed=_seed(asked["seed"]),
        stops=not asked["no_stop"],
    )
    if output == "json":
        click.echo(json.dumps(_document(found), indent=1))
        return
    cells = [_cells(found, number, step) for number, step in enumerate(found.replay.steps, 1)]
    header = ("trial", *found.names, "cost", "expected saving", "above cheapest")
    right = (0, *range(len(header) - 3, len(header)))
    click.echo("\n".join(table(header, cells, right=right)))
    click.echo("\n" + _summary(found))


def _trials(text: str) -> int:
    from advisor.runs.budget import parse_budget

    trials = parse_budget(text).trials
    if trials is None:
        raise UsageError(
            "a table has no clock: --budget takes trials here, not '{given}'", given=text
        )
    return trials


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise UsageError(
            "--seed takes a whole number from 0 on, not '{given}'", given=text, field="seed"
        )
    return int(text)


def _cells(found: Simulation, number: int, step: Step) -> tuple[str, ...]:
    configuration = found.configurations[step.index]
    return (
        str(number),
        *("" if v is None else v if isinstance(v, str) else f"{v:g}" for v in configuration),
        "failed" if step.log_cost is None else f"{math.exp(step.log_cost):.4g}",
        "-" if step.expected_saving is None else _percent(step.expected_saving),
        "-" if math.isinf(step.regret) else _percent(step.regret),
    )


def _summary(found: Simulation) -> str:
    count, steps = len(found.configurations), found.replay.steps
    known = f"knowing {found.history} other workloads" if found.history else "knowing no other"
    last = steps[-1].regret if steps else math.inf
    end = "Nothing that works was found" if math.isinf(last) else (
        "The cheapest was found" if last <= 0 else f"The best found costs {_percent(last)} too much"
    )  # fmt: skip
    tried = f"{len(steps)} of {count} configurations tried"
    return f"{end}: {tried}, {known}.\nStopped: {found.replay.stopped}."


def _document(found: Simulation) -> dict[str, Any]:
    steps = [
        {
            "configuration": dict(zip(found.names, found.configurations[one.index], strict=True)),
            "cost": None if one.log_cost is None else math.exp(one.log_cost),
            "expected_saving": one.expected_saving,
            "regret": None if math.isinf(one.regret) else one.regret,
        }
        for one in found.replay.steps
    ]
    return {
        "schema": "advisor.sweep-simulation/1",
        "workload": found.workload,
        "configurations": len(found.configurations),
        "other_workloads": found.history,
        "cheapest_cost": found.cheapest,
        "trials": steps,
        "stopped": found.replay.stopped,
    }


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
