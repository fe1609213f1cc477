"""How a trial is told apart from its neighbours."""

from msgspec.structs import replace

from advisor.domain import MemoryFormat, Precision, Stack, Task
from advisor.sweeps.trial.formatting import steps_text, trial_name
from tests.sweeps.builders import TIME_BOX, trial


def test_what_is_usual_goes_without_saying():
    assert steps_text(trial(accelerator="cuda:T4")) == "cuda:T4"


def test_trials_that_differ_in_a_setting_have_other_names():
    plain = trial(accelerator="cuda")
    workload = replace(
        plain.workload, precision=Precision.AMP, memory_format=MemoryFormat.CHANNELS_LAST, stack=Stack.COMPILE
    )
    searching = replace(plain, workload=workload, plan={**TIME_BOX, "cudnn_benchmark": True})
    assert steps_text(searching) == "cuda amp channels_last compile cudnn_benchmark"
    assert steps_text(searching) in trial_name(searching)


def test_a_trial_on_several_gpus_says_how_many():
    one = trial(accelerator="cuda:T4", task=Task.INFERENCE)
    four = replace(one, resources=replace(one.resources, gpu_count=4))
    assert steps_text(four) == "4 x cuda:T4"
