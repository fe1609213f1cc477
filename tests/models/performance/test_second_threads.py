"""vCPUs are cores, second threads and a speed, whichever of them a sweep was made on."""

import math

import numpy as np
import pytest
from msgspec.structs import replace

from advisor.domain import Cpu, DiskRate, Resources, Stage, Task, Workload
from advisor.models.performance import load_model
from advisor.runs.fitting import fit_user_model
from tests.models.performance.synthetic import measure, trials, true_parameters

PREPROCESSING = Workload(network="resnet50", task=Task.PREPROCESSING, batch_size=64)


def machine(vcpus, cores, architecture="x86_64", second_thread=0.33, score=2887.6):
    return Resources(
        vcpus=vcpus,
        physical_cores=cores,
        memory_mib=4096,
        disk=DiskRate(type="unlimited"),
        cpu=Cpu(
            model="x", architecture=architecture, single_thread_score=score, second_thread_yield=second_thread
        ),
    )


def host(resources, model=None):
    answer = (model or load_model()).predict([(PREPROCESSING, resources)], confidence=0.9)[0]
    return answer.stage_rates[Stage.HOST]


def width(resources):
    answer = load_model().predict([(PREPROCESSING, resources)], confidence=0.9)[0]
    return math.log(answer.upper / answer.lower)


def test_second_threads_add_their_yield_and_no_more():
    """Two vCPUs of one core lie between one core and two."""
    assert host(machine(1, 1)) * 1.25 < host(machine(2, 1)) < host(machine(2, 2)) * 0.75


def test_second_threads_that_nobody_measured_add_the_usual():
    unknown = replace(machine(2, 1), cpu=None)
    assert host(unknown) == pytest.approx(host(machine(2, 1, second_thread=0.33)))


def test_what_was_measured_on_whole_cores_is_surer_there():
    """Second threads and another instruction set are doubts of their own."""
    whole = width(machine(2, 2))
    assert width(machine(2, 1)) > whole
    assert width(machine(2, 2, architecture="arm64")) > whole * 2


def test_another_instruction_set_is_told():
    answer = load_model().predict([(PREPROCESSING, machine(2, 2, architecture="arm64"))])[0]
    assert any("arm64 cores were not measured" in str(note) for note in answer.extrapolation)


@pytest.mark.parametrize("truth", [0.15, 0.5])
def test_a_sweep_on_second_threads_learns_what_they_add(truth):
    """The factor on the usual yield moves towards what the trials show."""
    parameters = true_parameters(host__second_thread=math.log(truth / 0.33))
    swept = [
        replace(one, resources=replace(one.resources, vcpus=2 * one.resources.vcpus))
        if number % 4 >= 2
        else one
        for number, one in enumerate(trials())
    ]
    fitted = fit_user_model(measure(swept, parameters)).model
    learnt = host(machine(2, 1), fitted) / host(machine(1, 1), fitted) - 1
    assert abs(learnt - truth) < abs(0.33 - truth)
    assert np.sign(fitted.pipeline.parameters["host/second_thread"]) == np.sign(truth - 0.33)
