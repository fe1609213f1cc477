"""Configurations as numbers between 0 and 1."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from models.search.kernel import Floats

Value = str | float | None
# From here on the ratio of two values says more than their difference.
_LOG_FROM = 3.0


def encoded(configurations: Sequence[Sequence[Value]]) -> Floats:
    """Features (n, d) in 0..1 of configurations with the same columns.

    Columns of numbers are scaled (their logarithm where all are positive and the largest is
    three times the smallest); words, and columns where some have no value, are one column a word.
    """
    parts = [_column(column) for column in zip(*configurations, strict=True)]
    kept = [part for part in parts if part.shape[1]]
    return np.hstack(kept) if kept else np.zeros((len(configurations), 1))


def _column(values: Sequence[Value]) -> Floats:
    if any(not isinstance(value, (int, float)) for value in values):
        words = sorted({str(value) for value in values if value is not None})
        if len(words) == 1 and None not in values:
            return np.zeros((len(values), 0))
        return np.array([[str(value) == word for word in words] for value in values], dtype=float)
    numbers = np.array(values, dtype=float)
    if numbers.min() > 0 and numbers.max() >= _LOG_FROM * numbers.min():
        numbers = np.log(numbers)
    spread = np.ptp(numbers)
    if spread == 0:
        return np.zeros((len(values), 0))
    scaled: Floats = ((numbers - numbers.min()) / spread)[:, None]
    return scaled
