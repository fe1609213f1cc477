"""What a trial's worker feeds to its network."""

import pytest
import torch
from msgspec.structs import replace

from advisor.errors import DataError
from advisor.models.zoo.opening import open_network
from advisor.sweeps.worker.inputs import open_batches
from tests.sweeps.builders import PROFILE, trial

pytestmark = pytest.mark.vector

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
