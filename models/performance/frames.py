"""Measured rows as pandas frames with a schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import pandas as pd

from advisor.errors import DataError


class Column(NamedTuple):
    """A column of a frame: its pandas type, its unit, and its meaning where the name does not say.
    Unknown numbers are nan; unknown words are empty."""

    dtype: str
    unit: str = ""
    meaning: str = ""


def checked_frame(frame: Any, columns: Mapping[str, Column]) -> pd.DataFrame:
    """The columns of a frame, in their order and types; `DataError` names what is missing or no number."""
    if not isinstance(frame, pd.DataFrame):
        raise DataError("a frame of pandas is needed, not {kind}", kind=type(frame).__name__)
    if missing := [name for name in columns if name not in frame]:
        raise DataError("the frame lacks {missing}", missing=", ".join(missing))
    words = [name for name, column in columns.items() if column.dtype == "str"]
    try:
        known = frame[list(columns)].assign(**frame[words].astype(object).fillna(""))
        return known.astype({name: column.dtype for name, column in columns.items()})
    except (TypeError, ValueError) as error:
        raise DataError("the frame has other values than its columns: {error}", error=error) from error
