"""What may be scheduled: parsed and checked as the command itself would, when it is added."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

import click
from click.core import ParameterSource

from advisor.errors import UsageError
from advisor.runs.commands import ALLOWED, is_sweep, kind_of
from advisor.runs.schedules import Checked, checked_sweep

# The schedule decides these itself.
_OURS = {
    "output": "leave -o out: the schedule reads the command's JSON, and `schedule show` tells it",
    "fresh_since": "leave --fresh-since out: the schedule sets it to each run's due time",
    "dry_run": "leave --dry-run out: nothing would be measured",
}


def checked_command(words: Sequence[str]) -> Checked:
    """The command that is asked for; `UsageError`, or click's own, for what the command would
    refuse, and for commands that are not to be scheduled."""
    if words and PurePath(words[0]).name == "advisor":
        words = words[1:]
    kind = kind_of(words)
    if kind is None:
        known = ", ".join(f"`{' '.join(one)}`" for one in ALLOWED)
        given = f"`{' '.join(words[:2])}` cannot be scheduled" if words else "no command is given"
        raise UsageError(f"{given}; write one of {known} behind --")
    command, rest = _click_command(kind), list(words[len(kind) :])
    context = command.make_context(f"advisor {' '.join(kind)}", rest)
    for name, reason in _OURS.items():
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise UsageError(reason)
    if not is_sweep(words):
        return Checked(tuple(words))
    return checked_sweep(tuple(words), context.params)


def _click_command(kind: tuple[str, ...]) -> click.Command:
    if kind == ("fit",):
        from advisor.cli.fit import fit

        return fit
    if kind == ("catalog", "refresh"):
        from advisor.cli.catalog_refresh import refresh

        return refresh
    from advisor.cli.sweep import run

    return run
