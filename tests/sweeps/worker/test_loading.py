"""The order in which an epoch's samples are read, and loader processes that die or hang, with torch's
own words for it."""

from __future__ import annotations

import os
import signal
import time
from itertools import islice

import pytest
import torch
from msgspec.structs import replace

from advisor.domain import Status
from advisor.errors import DataError
from advisor.models.zoo.opening import open_network
from advisor.sweeps.datasets.source import Sample, SampleKind
from advisor.sweeps.trial.child import ending_of
from advisor.sweeps.worker import inputs
from advisor.sweeps.worker.inputs import EndlessOrder, make_loader, open_batches
from tests.sweeps.builders import LEFT_TO_THE_COLLECTOR, PROFILE, trial

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


# A text that is fed to its network.


LSTM = open_network("lstm_ptb_small")
UNROLL = LSTM.info.input_shape[0]


@pytest.fixture
def text(tmp_path):
    """300 lines of seven different words and the end of each line."""
    path = tmp_path / "words.txt"
    path.write_text("a b a c d e f g\n" * 300)
    return path


def reading(path, rows):
    profile = replace(PROFILE, storage_format="text")
    return trial(network="lstm_ptb_small", dataset=profile, batch_size=rows, dataset_path=str(path))


@pytest.mark.vector
def test_targets_are_the_words_that_follow_and_a_text_never_ends_unless_it_is_too_short_for_a_batch(text):
    batches = open_batches(reading(text, rows=3), LSTM, None)

    (first, targets), (second, _) = next(batches), next(batches)
    assert first.shape == targets.shape == (3, UNROLL)
    assert torch.equal(first[:, 1:], targets[:, :-1])
    assert torch.equal(targets[:, -1], second[:, 0])
    batches = open_batches(reading(text, rows=8), LSTM, None)
    steps = [next(batches)[0] for _ in range(100)]
    again = next(index for index, step in enumerate(steps[1:], 1) if torch.equal(step, steps[0]))
    assert again < 100
    assert {step.shape for step in steps} == {(8, UNROLL)}
    with pytest.raises(DataError, match=r"2,700 words, and a batch of 200 needs more than 4,000"):
        open_batches(reading(text, rows=200), LSTM, None)
