"""Reads the store for commands that only show it: a damaged row does not hide the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from advisor.cli.printing import tell
from advisor.domain import Measurement
from advisor.errors import DataError

if TYPE_CHECKING:
    from advisor.store.measurements import Wanted
    from advisor.sweeps.measurement_store import Stored


@contextmanager
def stored_measurements(wanted: Wanted | None = None) -> Iterator[Sequence[Measurement]]:
    """The rows that can be read, all or those that are wanted. Those that cannot are named on
    stderr, and the command ends with exit code 1 once it has answered from the others."""
    from advisor.store.measurements import all_of, open_store

    with closing(open_store(reading=True)) as store:
        stored = store.read() if wanted is None else all_of(store, wanted)
    print_damaged(stored)
    yield stored.measurements
    fail_if_damaged(stored)


def print_damaged(stored: Stored) -> None:
    """A line on stderr for each row that cannot be read."""
    for row in stored.damaged:
        tell(row.reason)


def fail_if_damaged(stored: Stored) -> None:
    """`DataError` behind the answer, when it lacks rows."""
    if stored.damaged:
        rows = "1 row" if len(stored.damaged) == 1 else f"{len(stored.damaged)} rows"
        raise DataError(
            "{rows} of the database cannot be read",
            rows=rows,
            hint="each is named above; the answer has the others",
        )
