"""The order in which an epoch's samples are read."""

from __future__ import annotations

from itertools import islice

from sweeps.worker.pipeline.loading import EndlessInOrder, EndlessShuffle


def test_stored_order_begins_again_without_an_end() -> None:
    assert list(islice(EndlessInOrder(3), 7)) == [0, 1, 2, 0, 1, 2, 0]


def test_every_shuffled_epoch_has_each_sample_once_in_another_order() -> None:
    numbers = iter(EndlessShuffle(50))
    first, second = (list(islice(numbers, 50)) for _ in range(2))
    assert sorted(first) == sorted(second) == list(range(50))
    assert first != second
