"""Rates on a GPU never measured follow from its data sheet and from other GPUs' rates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from models.performance.datasheet.model import DataSheetModel, NothingKnown
from tests.models.performance.datasheet.rates import CARDS, rows


def errors(predicted, own):
    """Errors in log rate."""
    return np.log(predicted / np.array([row.samples_per_second for row in own]))


def split(card, **how):
    """Rows of the other cards, and the card's own."""
    every = rows(**how)
    return (
        [row for row in every if row.gpu_name != card],
        [row for row in every if row.gpu_name == card],
    )


@pytest.mark.parametrize("card", ["third", "first"])
def test_a_card_among_the_measured_ones_is_predicted_within_a_tenth(card):
    rest, own = split(card)
    assert np.abs(errors(DataSheetModel().fit(rest).predict(own), own)).mean() < 0.1


def test_a_card_far_from_all_measured_ones_is_not_claimed_to_be_as_sure():
    rest, own = split("fifth")
    known = [row for row in rest if row.gpu_name == "third"]
    model = DataSheetModel().fit(rest)
    assert model.predict_with_sigma(own)[1].mean() > 1.2 * model.predict_with_sigma(known)[1].mean()


def test_most_rates_lie_in_their_interval():
    inside = []
    for card in CARDS:
        rest, own = split(card)
        rates, sigmas = DataSheetModel().fit(rest).predict_with_sigma(own)
        inside += list(np.abs(errors(rates, own)) <= 1.645 * sigmas)
    assert np.mean(inside) > 0.85


def test_a_wrong_row_is_left_out_and_bends_nothing():
    rest, own = split("third")
    clean = DataSheetModel().fit(rest).predict(own)
    wrong = next(i for i, row in enumerate(rest) if row.gpu_name == "fifth")
    spoilt = [*rest]
    spoilt[wrong] = rest[wrong].measured(rest[wrong].samples_per_second / 15)
    model = DataSheetModel().fit(spoilt)
    assert model.left_out == (spoilt[wrong],)
    assert np.allclose(model.predict(own), clean, rtol=0.03)


def test_a_card_without_data_sheet_still_teaches_what_compiling_brings():
    rest, own = split("third")
    plain = [row for row in rest if not row.software.compiled]
    pair = [replace(row, gpu=None, gpu_name="?") for row in rest if row.gpu_name == "second"]
    plain = [row for row in plain if row.gpu_name != "second"]
    asked = [row for row in own if row.software.compiled]
    without = errors(DataSheetModel().fit(plain).predict(asked), asked)
    taught = errors(DataSheetModel().fit([*plain, *pair]).predict(asked), asked)
    assert np.isfinite(without).all()
    assert np.abs(taught).mean() < 0.12


def test_the_fit_does_not_depend_on_the_order_of_rows():
    rest, own = split("second", compiled=(False,))
    forwards = DataSheetModel().fit(rest).predict(own)
    assert np.allclose(forwards, DataSheetModel().fit(rest[::-1]).predict(own), rtol=1e-3)


def test_one_measured_card_is_enough_to_scale_from_and_says_how_unsure_it_is():
    every = rows(cards=("first", "third"), compiled=(False,))
    rest = [row for row in every if row.gpu_name == "first"]
    own = [row for row in every if row.gpu_name == "third"]
    rates, sigmas = DataSheetModel().fit(rest).predict_with_sigma(own)
    assert np.abs(errors(rates, own)).max() < 1
    assert sigmas.min() > 0.1


def test_a_run_moves_its_machine_towards_what_it_reached():
    moved = DataSheetModel.after_run(np.array([100.0, 200.0]), 0, 144.0)
    assert moved == pytest.approx([144.0, 240.0])


def test_the_telling_run_is_one_of_those_asked_for():
    rest, own = split("third", compiled=(False,))
    assert 0 <= DataSheetModel().fit(rest).most_telling(own) < len(own)


def test_what_was_never_measured_is_refused_in_words():
    rest, own = split("third", compiled=(False,))
    model = DataSheetModel().fit([row for row in rest if row.network != "deep"])
    with pytest.raises(NothingKnown, match="deep/"):
        model.predict(own)
    with pytest.raises(NothingKnown, match="data sheet"):
        DataSheetModel().fit([replace(row, gpu=None) for row in rest])
    with pytest.raises(NothingKnown, match="data sheet"):
        DataSheetModel().fit([])
