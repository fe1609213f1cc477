"""The order in which an epoch's samples are read, and loader processes that die or hang, with torch's
own words for it."""

from __future__ import annotations

import os
import signal
import time
from itertools import islice

import pytest

from advisor.domain import Status
from advisor.sweeps.datasets.source import Sample, SampleKind
from advisor.sweeps.trial.child import ending_of
from advisor.sweeps.worker import inputs
from advisor.sweeps.worker.inputs import EndlessOrder, make_loader
from tests.sweeps.marks import LEFT_TO_THE_COLLECTOR

pytestmark = [*LEFT_TO_THE_COLLECTOR]


def test_every_shuffled_epoch_has_each_sample_once_in_another_order() -> None:
    numbers = iter(EndlessOrder(50))
    first, second = (list(islice(numbers, 50)) for _ in range(2))
    assert sorted(first) == sorted(second) == list(range(50))
    assert first != second
    assert list(islice(EndlessOrder(3, "stored"), 7)) == [0, 1, 2, 0, 1, 2, 0]


@pytest.mark.parametrize("order", ["shuffled", "stored"])
def test_the_order_that_is_told_is_the_one_in_which_a_loader_reads(order) -> None:
    """Of a large data set only what comes first is dropped from the page cache."""
    loader = make_loader(
        range(50), pixels=8, batch_size=4, workers=0, prefetch_factor=None, pin_memory=False, order=order
    )
    assert list(islice(EndlessOrder(50, order), 60)) == list(islice(loader.sampler, 60))


@pytest.mark.parametrize(("transform", "same"), [("served", True), ("augmented", False)])
def test_a_served_image_is_its_centre_and_an_augmented_one_is_drawn_anew(transform, same) -> None:
    """Decoded pixels of the size that is served stay as they are, but for the crop."""
    torch = pytest.importorskip("torch")
    planes = bytes(range(256)) * 3 * 256
    sample = Sample(SampleKind.PIXELS, planes, 0, 256, 256)
    images = inputs.Images(Samples(lambda: sample), 224, transform=transform)
    first, second = (images[0][0] for _ in range(2))
    assert first.shape == (3, 224, 224)
    assert torch.equal(first, second) is same
    if same:
        whole = torch.arange(256.0)[16:-16] / 255
        assert torch.allclose(first[0, 0], (whole - 0.485) / 0.229, atol=1e-5)


class Samples:
    """A source whose samples never come: reading one does something else."""

    storage_format = "jpeg-files"
    files = ()

    def __init__(self, read):
        self._read = read

    def __len__(self):
        return 8

    def read(self, index):
        return self._read()

    def name(self, index):
        return str(index)


def kill_oneself():
    os.kill(os.getpid(), signal.SIGKILL)


def ending_of_loading(read, folder):
    loader = make_loader(
        Samples(read), pixels=32, batch_size=2, workers=1, prefetch_factor=2, pin_memory=False
    )
    with pytest.raises(RuntimeError) as caught:
        next(iter(loader))
    return ending_of(caught.value, str(folder))


def test_a_killed_loader_process_is_told_as_that_and_one_that_hangs_ends_the_trial(tmp_path, monkeypatch):
    ending = ending_of_loading(kill_oneself, tmp_path)
    assert ending.status is Status.FAILED
    assert "a loader process was killed from outside" in ending.reason
    monkeypatch.setattr(inputs, "_LONGEST_BATCH_SECONDS", 1)
    ending = ending_of_loading(lambda: time.sleep(600), tmp_path)
    assert ending.status is Status.TIMED_OUT
    assert str(tmp_path) in ending.reason
