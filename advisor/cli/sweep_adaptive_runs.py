"""`advisor sweep plan --adaptive` and `run --adaptive`."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from contextlib import closing
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from advisor.cli.sweep_adaptive import doubt_text, plan_lines, standing_document
from advisor.cli.sweep_table import (
    COLUMNS,
    RIGHT,
    cells_of,
    print_json,
    print_trials,
    raise_failures,
)
from advisor.domain import Trial
from advisor.render.text import table
from advisor.runs.sweeps.adaptive_asking import adaptive_from
from advisor.runs.sweeps.rows import shown_rows, trial_document
from sweeps.planning.staleness import is_stale

if TYPE_CHECKING:
    from advisor.runs.adaptive import AdaptiveSweep, Standing
    from sweeps.driver.runner import Progress
    from sweeps.store import MeasurementStore


def plan_adaptively(trials: Sequence[Trial], asked: dict[str, Any], output: str) -> None:
    """Show the trials that come next after what is stored."""
    from sweeps.driver.runner import known_rows
    from sweeps.store import open_store

    sweep = adaptive_from(trials, asked)
    with closing(open_store(reading=True)) as store:
        standing = sweep.standing(known_rows(sweep.trials, store))
    planned = [item.trial for item in standing.next]
    if output == "json":
        documents = [trial_document(trial) for trial in planned]
        print_json("advisor.adaptive-plan/1", **standing_document(sweep, standing), next=documents)
        return
    if planned:
        click.echo(
            "\n".join(table(COLUMNS, [cells_of(one) for one in planned], right=RIGHT)) + "\n"
        )
    click.echo("\n".join(plan_lines(sweep, standing)))


class AdaptiveRun(NamedTuple):
    """A sweep that has stopped, where it stands, and the trials that were done before."""

    sweep: AdaptiveSweep
    standing: Standing
    before: Set[str]


def run_adaptively(
    trials: Sequence[Trial],
    asked: dict[str, Any],
    store: MeasurementStore,
    *,
    executor: str,
    ray_address: str | None,
    on_progress: Callable[[Progress], None],
    since: datetime | None = None,
) -> AdaptiveRun:
    """Measure what tells most; after each batch tell on stderr how well the answer is known."""
    from advisor.runs.adaptive import run_adaptive

    sweep = adaptive_from(trials, asked)
    before = {
        name for name, one in store.summaries().items() if not is_stale(one.started_at, since)
    }

    def tell(standing: Standing) -> None:
        if standing.done:
            click.echo(f"{len(standing.done)} done; {doubt_text(sweep, standing)}", err=True)

    standing = run_adaptive(
        sweep, store, executor=executor, ray_address=ray_address, on_progress=on_progress,
        on_batch=tell, since=since,
    )  # fmt: skip
    return AdaptiveRun(sweep, standing, before)


def print_adaptive(run: AdaptiveRun, store: MeasurementStore, output: str) -> None:
    """What was measured and how well the answer is known; raises where trials failed now."""
    from sweeps.driver.runner import Outcome

    sweep, standing, before = run
    done = list({item.trial.trial_id: item.trial for item in standing.done}.values())
    rows, _ = shown_rows(store, done)
    new = [one.trial_id for one in done if one.trial_id not in before]
    stands = standing_document(sweep, standing)
    facts = {} if output == "table" else {"measured_now": len(new), **stands}
    print_trials(output, "advisor.adaptive-run/1", done, rows, **facts)
    if output == "table":
        click.echo(f"Stopped: {standing.stopped}; {doubt_text(sweep, standing)}.")
    outcome = Outcome()
    for name in new:
        outcome.count(rows[name])
    # A sweep that plans itself goes on past failures: it never measures them again.
    raise_failures(outcome, "describe those trials to `sweep run` without --adaptive, with")
