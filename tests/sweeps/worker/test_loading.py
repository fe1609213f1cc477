"""The order in which an epoch's samples are read."""

from __future__ import annotations

from itertools import islice

import pytest

from advisor.sweeps.worker.pipeline.loading import EndlessInOrder, EndlessShuffle, make_loader, sample_order


def test_stored_order_begins_again_without_an_end() -> None:
    assert list(islice(EndlessInOrder(3), 7)) == [0, 1, 2, 0, 1, 2, 0]


def test_every_shuffled_epoch_has_each_sample_once_in_another_order() -> None:
    numbers = iter(EndlessShuffle(50))
    first, second = (list(islice(numbers, 50)) for _ in range(2))
    assert sorted(first) == sorted(second) == list(range(50))
    assert first != second


@pytest.mark.parametrize("order", ["shuffled", "stored"])
def test_the_order_that_is_told_is_the_one_in_which_a_loader_reads(order) -> None:
    """Of a large data set only what comes first is dropped from the page cache."""
    loader = make_loader(
        range(50), pixels=8, batch_size=4, workers=0, prefetch_factor=None, pin_memory=False, order=order
    )
    assert list(islice(sample_order(50, order), 60)) == list(islice(loader.sampler, 60))
