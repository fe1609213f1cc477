"""One test for all rows of a table."""

from inspect import signature

import pytest


def assert_each(check, rows):
    """`check` holds for each row; all rows that it fails for are named at once.

    A check of several arguments takes a row's values apart.
    """
    takes_apart = len(signature(check).parameters) > 1
    offenders = []
    for row in rows:
        try:
            check(*row) if takes_apart else check(row)
        except (AssertionError, pytest.fail.Exception) as error:
            offenders.append(f"{row}: {error}")
    assert not offenders, "\n".join(offenders)
