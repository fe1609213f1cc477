"""How anchors are weighed against each other."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.performance.anchoring.combining import combine, surprises, usual_sigma
from models.performance.anchoring.records import Places

CARDS = st.sampled_from(["a", "b", "c"])
PLACES = st.lists(st.tuples(CARDS, st.integers(0, 8)), min_size=1, max_size=6)


def at(pairs):
    return Places(tuple(card for card, _ in pairs), np.array([float(b) for _, b in pairs]))


@settings(max_examples=100)
@given(PLACES, PLACES)
def test_weights_add_up_to_one_so_that_the_level_passes_through(anchors, targets):
    found = combine(at(anchors), at(targets))
    assert found.weights.sum(axis=1) == pytest.approx(np.ones(len(targets)))
    assert (found.sigma > 0).all()


@settings(max_examples=100)
@given(PLACES, st.tuples(CARDS, st.integers(0, 8)), st.tuples(CARDS, st.integers(0, 8)))
def test_one_more_anchor_never_leaves_more_doubt(anchors, more, target):
    fewer, all_of_them = (combine(at(some), at([target])) for some in (anchors, [*anchors, more]))
    assert all_of_them.sigma[0] <= fewer.sigma[0] + 1e-9


def test_an_anchor_on_the_very_card_counts_most():
    found = combine(at([("a", 5), ("b", 5)]), at([("a", 6)]))
    assert found.weights[0, 0] > 0.7


def test_the_same_card_is_surer_than_another():
    assert usual_sigma(same_card=True) < usual_sigma(same_card=False)


def test_a_single_anchor_surprises_nobody():
    far, _ = surprises(at([("a", 5)]), np.array([3.0]))
    assert far.tolist() == [0.0]


def test_the_one_that_differs_is_the_farthest_off():
    far, _ = surprises(at([("a", 5), ("a", 5), ("a", 5)]), np.array([0.0, 0.0, 1.0]))
    assert np.abs(far).argmax() == 2
