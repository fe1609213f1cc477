"""What computes a trial's steps, and its written form."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.domain import Accelerator, Task
from tests.sweeps.builders import trial

TEXTS = st.one_of(
    st.sampled_from(["cpu", "cuda"]),
    st.builds("{}:{}".format, st.sampled_from(["cuda", "emulated"]), st.text(min_size=1)),
)


@given(TEXTS)
def test_every_accelerator_is_written_as_it_was_read(text):
    assert str(Accelerator.parse(text)) == text


@pytest.mark.parametrize(
    ("accelerator", "trial_id"),
    [
        ("cpu", "b81097c4dc9ecf73"),
        ("cuda", "63bbcc2b4d7bff43"),
        ("cuda:T4", "fa123f4bc2f90cf6"),
        ("cuda:A100-40GB", "11151dca248650f3"),
        ("emulated:T4", "978f90d38083ec3f"),
    ],
)
def test_trials_of_before_the_record_keep_their_ids(accelerator, trial_id):
    seconds = 0.03 if accelerator.startswith("emulated") else None
    one = trial(task=Task.TRAINING, accelerator=accelerator, emulated_step_seconds=seconds)
    assert one.trial_id == trial_id


def test_the_cpu_computes_a_network_but_none_is_computed_in_preprocessing():
    assert trial(task=Task.TRAINING).network_on_cpu
    assert not trial(task=Task.PREPROCESSING).network_on_cpu
    assert not trial(task=Task.TRAINING, accelerator="cuda").network_on_cpu
