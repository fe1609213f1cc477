"""`advisor sweep status`: what runs, what is done and what is left, once or again and again."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any

import click

from advisor.cli.live import is_terminal, live_block
from advisor.cli.parameters import Name
from advisor.cli.stored import fail_if_damaged, tell_damaged
from advisor.cli.sweep_options import sweep_options
from advisor.cli.sweep_status_view import snapshot_lines
from advisor.errors import DataError, UsageError
from advisor.quantities import parse_positive
from advisor.runs.sweeps.asking import asked_for_nothing, options_from
from advisor.runs.sweeps.data import planned_data
from advisor.runs.sweeps.standing import snapshot_document
from advisor.runs.sweeps.sweeping import plan_sweep

if TYPE_CHECKING:
    from sweeps.watching.shared import Snapshot

_PATIENCE_SECONDS = 2.0
_QUIET_LOOKS = 2  # between two trials of a driver nothing runs for a moment
Show = Callable[["Snapshot", str], None]


@click.command()
@sweep_options
@click.option("--watch", is_flag=True, help="Again and again, until Ctrl-C or nothing is left.")
@click.option("--every", metavar="SECONDS", default="2s", show_default=True, help="Of --watch.")
@click.option(
    "-o", "--output", type=Name("output format", ("table", "json")), default="table",
    show_default=True, help="json with --watch: a line each time.",
)  # fmt: skip
def status(output: str, watch: bool, every: str, **answers: Any) -> None:
    """What runs where, how many trials are measured and how they ended, what is left and until
    when: of a described sweep, or of all in the store. Changes nothing."""
    seconds, trial_ids = _seconds(every), _described(answers)
    if watch:
        with suppress(KeyboardInterrupt), _shown(output) as show:
            _watch(trial_ids, seconds, show)
        return
    _tell_once(trial_ids, output)


def _tell_once(trial_ids: list[str] | None, output: str) -> None:
    from sweeps.store import open_store
    from sweeps.watching.shared import look_at

    with closing(open_store(reading=True)) as store:
        stored = store.read(trial_ids)
        found = look_at(store, trial_ids, {one.trial_id for one in stored.damaged})
    tell_damaged(stored)
    if output == "json":
        click.echo(json.dumps(snapshot_document(found), indent=1))
    else:
        click.echo("\n".join(snapshot_lines(found)))
    fail_if_damaged(stored)


def _watch(trial_ids: list[str] | None, seconds: float, show: Show) -> None:
    """Look until nothing is left; a database that goes away is waited for once it was seen."""
    from sweeps.store import SqlStore, default_database_url
    from sweeps.watching.secrets import without_secrets
    from sweeps.watching.shared import look_at

    found: Snapshot | None = None
    quiet = 0
    url = default_database_url()
    with closing(SqlStore(url, reading=True, patience_seconds=_PATIENCE_SECONDS)) as store:
        while True:
            trouble = ""
            try:
                found = look_at(store, trial_ids)
            except DataError as error:
                if found is None:
                    raise
                trouble = without_secrets(str(error))
            show(found, trouble)
            quiet = quiet + 1 if _nothing_more(found, trial_ids) and not trouble else 0
            if quiet >= _QUIET_LOOKS:
                return
            time.sleep(seconds)


def _nothing_more(found: Snapshot, trial_ids: list[str] | None) -> bool:
    """Of a described sweep all is measured; of an undescribed one nothing runs."""
    return found.is_over if trial_ids is not None else not found.running


@contextmanager
def _shown(output: str) -> Iterator[Show]:
    """A block that is drawn again on a terminal; elsewhere a block for each change, or a line of
    JSON for each look."""
    if output == "json":
        yield lambda found, trouble: click.echo(json.dumps(snapshot_document(found, trouble)))
    elif is_terminal(sys.stdout):
        latest: list[str] = ["looking"]

        def renew(found: Snapshot, trouble: str) -> None:
            latest[:] = snapshot_lines(found, trouble)

        with live_block(lambda: latest, stderr=False):
            yield renew
    else:
        yield _changes()


def _changes() -> Show:
    last: list[Any] = []

    def show(found: Snapshot, trouble: str) -> None:
        now = [found.total, dict(found.counts), [one.trial_id for one in found.running], trouble]
        if now != last:
            last[:] = now
            click.echo("\n".join([*snapshot_lines(found, trouble), ""]))

    return show


def _described(answers: dict[str, Any]) -> list[str] | None:
    if asked_for_nothing(answers):
        return None
    options = options_from(answers)
    return [trial.trial_id for trial in plan_sweep(options, planned_data(options))]


def _seconds(text: str) -> float:
    """'2s' -> 2.0; a bare number is seconds too."""
    seconds = parse_positive(text.strip().removesuffix("s"), "--every")
    if seconds > 3600:
        raise UsageError(f"--every takes at most an hour (3600s), not '{text}'")
    return seconds
