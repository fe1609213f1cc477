"""16-bit numbers help where the chip computes them fast, and only cost where it converts them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from models.performance.datasheet.effects import PARTS, prior, row_effects
from models.performance.step_work import HALF
from tests.models.performance.datasheet.rates import gpu, rows


def half_row(fp16_tflops):
    row = next(row for row in rows(cards=("old",)) if row.precision == HALF)
    return replace(row, gpu=replace(gpu("old"), fp16_tflops=fp16_tflops))


@pytest.mark.parametrize("fp16_tflops", [None, 11.0, 22.0])
def test_half_precision_moves_fewer_bytes_where_the_sheet_does_not_say_otherwise(fp16_tflops):
    names = row_effects(half_row(fp16_tflops)).names
    assert "memory/16-bit" in names[PARTS.index("memory")]
    assert "compute/converted" not in names[PARTS.index("compute")]


def test_a_chip_with_slow_half_precision_converts_and_gains_nothing():
    names = row_effects(half_row(0.2)).names
    assert "memory/16-bit" not in names[PARTS.index("memory")]
    assert "compute/converted" in names[PARTS.index("compute")]
    assert prior("compute/converted").mean > 0


def test_every_effect_of_a_row_has_a_prior():
    for row in rows():
        for part in row_effects(row).names:
            assert all(prior(name).sigma > 0 for name in part)
