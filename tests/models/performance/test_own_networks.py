"""GPU memory from what anchors saw: never less than it takes."""

import pytest

from advisor.domain import Observation, Task, Workload
from advisor.models.performance import paced_gpu
from advisor.models.performance.own_networks import AnchoredMemory, peaks_of


def anchor(batch_size=32, peak_mib=None):
    workload = Workload(network="n", task=Task.TRAINING, batch_size=batch_size)
    return Observation(workload=workload, gpu=paced_gpu("T4"), seconds=0.25, peak_mib=peak_mib)


def needed(memory, batch):
    return memory.needed_card_mib(Workload(network="n", task=Task.TRAINING, batch_size=batch))


def test_peaks_grow_along_their_line():
    memory = AnchoredMemory(((8, 1000.0), (16, 1800.0)))
    assert needed(memory, 32) - needed(memory, 16) == pytest.approx(16 * 100 * 1.1 / 0.98)
    assert needed(memory, 12) == needed(memory, 16)


def test_a_single_peak_may_all_grow_with_the_batch_and_may_not_shrink():
    memory = peaks_of([anchor(batch_size=8, peak_mib=1000.0)])
    assert needed(memory, 16) > 2 * 1000
    assert needed(memory, 1) == needed(memory, 8)


def test_a_larger_batch_never_needs_less():
    memory = peaks_of(
        [
            anchor(batch_size=8, peak_mib=2000.0),
            anchor(batch_size=16, peak_mib=1500.0),
            anchor(batch_size=8, peak_mib=1900.0),
        ]
    )
    sizes = [needed(memory, batch) for batch in (1, 8, 9, 16, 17, 300)]
    assert sizes == sorted(sizes)


def test_without_a_peak_nothing_is_known():
    assert needed(peaks_of([anchor()]), 64) == 0
