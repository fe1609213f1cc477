"""`advisor sweep log`: one trial's story, or the latest of all, from the log of sweeps."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import click

from advisor.cli.parameters import Name, Positive
from advisor.errors import UsageError
from advisor.places import sweep_log_path

_FEWEST_CHARACTERS = 4


@click.command()
@click.argument("trial_id", required=False)
@click.option("--log-file", type=click.Path(path_type=Path), help="Of `sweep run --log-file`.")
@click.option(
    "--last", type=Positive("--last", whole=True), default=50, show_default=True,
    help="Without a trial: so many lines.",
)  # fmt: skip
@click.option(
    "-o", "--output", type=Name("output format", ("table", "json")), default="table",
    show_default=True, help="json: the lines as they are logged.",
)  # fmt: skip
def log(trial_id: str | None, log_file: Path | None, last: int, output: str) -> None:
    """What happened to a trial, in order: planning, attempts, limits, steady state, storing.

    TRIAL_ID is an id of `sweep list`, or how it begins. Where no log of this machine tells of it,
    its stored row does. Without one: the latest events of all.
    """
    from sweeps.watching.story import log_lines

    path = log_file or sweep_log_path()
    if log_file and not log_file.exists():
        raise UsageError(f"there is no log '{log_file}'; leave --log-file out for the usual one")
    if path.is_dir():
        raise UsageError(f"'{path}' is a folder; name the log in it: --log-file {path}/FILE")
    if trial_id is None:
        _print(output, deque(log_lines(path), maxlen=last), of_many=True)
        return
    if len(trial_id) < _FEWEST_CHARACTERS:
        raise UsageError(f"'{trial_id}' may mean many trials; give {_FEWEST_CHARACTERS} characters")
    _print(output, _story(path, trial_id.lower()))


def _story(path: Path, trial_id: str) -> list[Mapping[str, Any]]:
    from sweeps.watching.story import log_lines, row_story, story_of

    story = story_of(log_lines(path), trial_id)
    named = {str(line["trial_id"]) for line in story} or _stored_ids(trial_id)
    if not named:
        raise UsageError(f"neither log nor store knows a trial '{trial_id}'; see: sweep list")
    if len(named) > 1:
        raise UsageError(f"'{trial_id}' may mean {', '.join(sorted(named)[:4])}; give more of it")
    if story:
        return story
    click.echo("no log of this machine tells of it; this is what its stored row tells", err=True)
    return row_story(_stored_row(named.pop()))


def _stored_ids(begin: str) -> set[str]:
    from sweeps.store import open_store

    with closing(open_store(reading=True)) as store:
        return {name for name in store.statuses() if name.startswith(begin)}


def _stored_row(trial_id: str) -> Any:
    from advisor.errors import DataError
    from sweeps.store import open_store

    with closing(open_store(reading=True)) as store:
        stored = store.read([trial_id])
    for one in stored.damaged:
        raise DataError(one.words)
    return stored.measurements[0]


def _print(output: str, lines: Iterable[Mapping[str, Any]], *, of_many: bool = False) -> None:
    from sweeps.watching.story import story_text

    shown = list(lines)
    if output == "json":
        click.echo("".join(json.dumps(line) + "\n" for line in shown), nl=False)
    elif shown:
        click.echo("\n".join(story_text(shown, of_many=of_many)))
    else:
        click.echo("Nothing is logged yet.")
