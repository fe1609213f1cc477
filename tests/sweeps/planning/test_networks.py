import pytest
from msgspec.structs import replace

from advisor.domain import Task
from advisor.errors import UsageError
from advisor.sweeps.planning.networks import StoredData, SweepData, network_of_zoo, planned_network
from advisor.sweeps.planning.plan import plan_trials
from tests.sweeps.builders import MACHINE, PROFILE, measurement, request

OWN = """
import torch
INPUT_SHAPE = (3, 8, 8)
SAMPLES_PER_ROW = 2
def build():
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 4))
"""


def planned(**changes):
    return plan_trials([request(**changes)], MACHINE, lambda *_: 0.1, planned_network)


def test_a_language_model_reads_the_text_and_its_rate_counts_tokens():
    text = StoredData(replace(PROFILE, storage_format="text", samples=929_589), "/text")
    data = SweepData(text=text)
    (one,) = planned(networks=("lstm_ptb_small",), tasks=(Task.TRAINING,), data=data)
    assert one.workload.dataset == text.profile
    assert (one.dataset_path, one.plan["loader_workers"]) == ("/text", 0)
    row = measurement(trial=one, step_seconds=(0.5,) * 8)
    assert row.throughput_samples_per_second == 32 * 20 / 0.5


def test_what_is_stored_decoded_is_made_in_memory():
    (one,) = planned(networks=("cifar10_cnn",), tasks=(Task.TRAINING,), data=SweepData())
    assert one.workload.dataset.storage_format == "synthetic"


def test_data_of_the_wrong_kind_are_refused_with_the_way_out():
    with pytest.raises(UsageError, match=r"lstm_ptb_small reads text; .* --data"):
        planned(networks=("lstm_ptb_small",), tasks=(Task.TRAINING,))


@pytest.mark.parametrize(
    ("name", "task", "words"),
    [
        ("lstm_ptb_small", Task.PREPROCESSING, "has no preprocessing.*training or inference"),
        ("cifar10_cnn", Task.PREPROCESSING, "has no preprocessing"),
        ("deeplabv3_resnet50", Task.TRAINING, "batches of 2 or more"),
    ],
)
def test_what_a_network_does_not_do_is_refused_in_the_plan(name, task, words):
    with pytest.raises(UsageError, match=words):
        planned(networks=(name,), tasks=(task,), batch_sizes=(1,))


def test_photographs_stay_the_data_of_what_reads_them():
    assert network_of_zoo("yolov3").photographs
    assert not network_of_zoo("cifar10_cnn").photographs


@pytest.mark.slow
def test_an_own_network_is_planned_by_its_content(tmp_path):
    file = tmp_path / "net.py"
    file.write_text(OWN)
    reference = f"{file}:build"
    (first,) = planned(networks=(reference,), tasks=(Task.TRAINING,))
    assert first.plan["samples_per_row"] == 2
    file.write_text(f"{OWN}# changed\n")
    planned_network.cache_clear()
    (second,) = planned(networks=(reference,), tasks=(Task.TRAINING,))
    assert first.trial_id != second.trial_id


@pytest.mark.slow
def test_an_own_file_that_fails_is_told_in_one_line(tmp_path):
    file = tmp_path / "net.py"
    file.write_text("import no_such_package\ndef build(): ...\n")
    with pytest.raises(UsageError, match="no_such_package") as told:
        planned_network(str(file))
    assert "\n" not in str(told.value)
