"""Workloads carried from one GPU to another."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from models.performance.networks import Floats
from models.performance.transfer.across_gpus import TrainingPair, fit_across_gpus
from models.performance.transfer.cells import Profiles
from models.performance.transfer.conformal import hold_out
from models.performance.transfer.few_trials import fit_error_covariance
from models.performance.transfer.new_gpu import TaughtPair, fit_sheet_transfer
from models.performance.transfer.operation_ratios import fit_operation_ratios
from models.performance.transfer.operations import CLASSES
from tests.models.performance.transfer.synthetic_gpus import FAST, RATIOS, SLOW, pair_of_gpus


def _percent(log_seconds: Floats, seconds: Floats) -> float:
    return 100 * float(np.mean(np.abs(np.exp(log_seconds) / seconds - 1)))


def _by_one_ratio(taught: TrainingPair, asked: TrainingPair) -> Floats:
    ratio = np.median(taught.seconds / taught.anchor.seconds)
    return np.log(ratio * asked.anchor.seconds)


def test_a_new_network_is_carried_over_far_better_than_by_one_ratio() -> None:
    pair = pair_of_gpus()
    mine = pair.anchor.network == "net0"
    asked, taught = pair.rows(mine), pair.without("net0")
    answer = fit_across_gpus(taught).predict(asked.anchor)
    ours = _percent(answer.log_seconds, asked.seconds)
    assert ours < 6
    assert ours < 0.3 * _percent(_by_one_ratio(taught, asked), asked.seconds)
    assert (answer.doubt > 0).all()


def test_without_a_profile_the_step_alone_still_answers_and_worse() -> None:
    pair = pair_of_gpus()
    asked, taught = pair.rows(pair.anchor.network == "net1"), pair.without("net1")
    profiled = fit_across_gpus(taught).predict(asked.anchor)
    alone = fit_across_gpus(taught.without_profiles()).predict(asked.anchor)
    assert (alone.doubt > 0).all()
    best = _percent(profiled.log_seconds, asked.seconds)
    assert best < _percent(alone.log_seconds, asked.seconds) < 100


def test_too_few_networks_are_refused_in_words() -> None:
    pair = pair_of_gpus(networks=2)
    with pytest.raises(ValueError, match="too few workloads"):
        fit_across_gpus(pair)


def test_a_class_that_no_network_taught_goes_by_the_data_sheets() -> None:
    pair = pair_of_gpus()
    anchor = pair.anchor
    assert anchor.profiles is not None
    ratios = fit_operation_ratios(anchor, pair.profiles, pair.sheets)
    strange = np.zeros_like(anchor.profiles.operations)
    strange[:, CLASSES.index("depthwise")] = 0.01
    cells = replace(anchor, profiles=Profiles(operations=strange, idle=anchor.profiles.idle))
    there = ratios.target_operations(cells)[:, CLASSES.index("depthwise")]
    middle = np.sqrt((200 / 800) * (1.0 / 1.5))
    assert there == pytest.approx(0.01 * middle)
    assert ratios.untaught_share(cells) == pytest.approx(1.0)


def test_operation_ratios_are_found_and_own_rows_do_not_teach_themselves() -> None:
    pair = pair_of_gpus()
    assert pair.anchor.profiles is not None
    anchor, seen = pair.anchor, pair.anchor.profiles.operations
    ratios = fit_operation_ratios(anchor, pair.profiles, pair.sheets)
    column = CLASSES.index("convolution")
    found = ratios.cross_fitted[:, column] / seen[:, column]
    assert np.median(found) == pytest.approx(RATIOS["convolution"], rel=0.03)


def test_intervals_cover_networks_that_calibration_has_not_seen() -> None:
    pair = pair_of_gpus(networks=10)
    model = fit_across_gpus(pair.without("net3"))
    held_out = hold_out(model)
    asked = pair.rows(pair.anchor.network == "net3")
    answer = model.predict(asked.anchor)
    width = held_out.half_widths(answer.doubt, 0.95)
    inside = np.abs(np.log(asked.seconds) - answer.log_seconds) <= width
    assert inside.mean() >= 0.7
    assert (held_out.half_widths(answer.doubt, 0.99) >= width).all()


def test_trials_on_the_target_take_the_shared_error_out() -> None:
    pair = pair_of_gpus(networks=7)
    model = fit_across_gpus(pair.without("net2"))
    errors = fit_error_covariance(hold_out(model))
    asked = pair.rows(pair.anchor.network == "net2")
    answer = model.predict(asked.anchor)
    tried = errors.choose(asked.anchor, answer.doubt, 2)
    assert len(set(tried)) == 2
    off = np.full(len(tried), 0.2)
    shift, left = errors.correction(asked.anchor, answer.doubt, tried, off)
    assert (shift > 0).all()
    _, before = errors.correction(asked.anchor, answer.doubt, tried[:1], off[:1])
    assert left.sum() < before.sum()


def test_a_gpu_known_by_its_sheet_only_is_predicted_from_the_measured_pairs() -> None:
    pair = pair_of_gpus()
    model = fit_sheet_transfer([TaughtPair(pair.without("net0"), (SLOW, FAST))])
    asked = pair.rows(pair.anchor.network == "net0")
    assert _percent(model.predict(asked.anchor, (SLOW, FAST)), asked.seconds) < 15


def test_without_any_measured_pair_the_sheets_speak_alone() -> None:
    pair = pair_of_gpus()
    model = fit_sheet_transfer([])
    faster = model.predict(pair.anchor, (SLOW, FAST))
    assert (faster < np.log(pair.anchor.seconds)).all()
    same = model.predict(pair.anchor, (SLOW, SLOW))
    assert same == pytest.approx(np.log(pair.anchor.seconds), abs=1e-3)


def test_a_new_class_of_operations_is_doubted_but_not_beyond_all_bounds() -> None:
    pair = pair_of_gpus()
    assert pair.anchor.profiles is not None
    missing = CLASSES.index("depthwise")
    operations = pair.anchor.profiles.operations.copy()
    operations[:, missing] = 0.0
    taught = replace(
        pair,
        anchor=replace(pair.anchor, profiles=replace(pair.anchor.profiles, operations=operations)),
    )
    known = taught.anchor[:4]
    strange = operations[:4].copy()
    strange[:, missing] = 0.5 * strange.sum(axis=1)
    asked = replace(
        known, profiles=Profiles(operations=strange, idle=pair.anchor.profiles.idle[:4])
    )
    model = fit_across_gpus(taught)
    usual, unusual = model.predict(known).distance, model.predict(asked).distance
    assert (unusual > usual).all()
    assert (unusual < 50).all()
