"""What the store holds, for commands that only read: a damaged row does not hide the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

import click

from advisor.domain import Measurement
from advisor.errors import DataError


@contextmanager
def stored_measurements() -> Iterator[Sequence[Measurement]]:
    """The rows that can be read. Those that cannot are told on stderr, and the command ends with
    exit code 1 once it has answered from the others."""
    from sweeps.store import open_store

    with closing(open_store(reading=True)) as store:
        stored = store.read()
    for one in stored.damaged:
        click.echo(one.words, err=True)
    yield stored.measurements
    if stored.damaged:
        rows = "1 row" if len(stored.damaged) == 1 else f"{len(stored.damaged)} rows"
        raise DataError(f"{rows} of the database cannot be read (told above); the others could")
