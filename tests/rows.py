"""One test for all rows of a table, written in the test or read from tests/data."""

import json
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

DATA = Path(__file__).parent / "data"


def table(name: str) -> Any:
    """The tables of a file of tests/data/tables, by their names."""
    return json.loads((DATA / "tables" / f"{name}.json").read_text())


def assert_each(check, rows):
    """`check` holds for each row, whose values it takes apart; all rows that fail are named at once."""
    takes_apart = len(signature(check).parameters) > 1
    offenders = []
    for row in rows:
        try:
            check(*row) if takes_apart else check(row)
        except (AssertionError, pytest.fail.Exception) as error:
            offenders.append(f"{row}: {error}")
    assert not offenders, "\n".join(offenders)
