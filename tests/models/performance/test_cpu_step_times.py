"""Steps of networks on a CPU: more and faster cores never hurt, doubts grow with the distance."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from advisor.domain import IMAGENET, Cpu, DiskRate, Resources, Task, Workload
from advisor.infra.build.fitting.files import write_cpu_step_times
from advisor.infra.build.fitting.network_effects import fitted, fitted_logs
from advisor.models.bayes import Parameters
from advisor.models.performance import load_model
from advisor.models.performance.cpu_step_time import CpuConditions, relative_width
from advisor.models.performance.cpu_step_times import CpuColumns, bundled_cpu_step_times, cpu_step_times_from
from advisor.models.performance.networks import bundled_networks
from advisor.models.performance.posterior import Cell, steps_of
from advisor.models.performance.step_parameters import Step
from tests.rows import table

CASES = table("models_cases")

pytestmark = pytest.mark.vector

TABLE, TIMES, MODEL = bundled_networks(), bundled_cpu_step_times(), load_model()
TASKS = st.sampled_from([Task.INFERENCE, Task.TRAINING])
NETWORKS = st.sampled_from(TABLE.names)
MEASURED = Cpu(model="AMD EPYC 9R14", architecture="x86_64", single_thread_score=2887.6)


def rates(name, task, batch, cores, width=1.0, cpu=""):
    entry = np.ones(1)
    columns = CpuColumns(cores * entry, entry, width * entry, np.array([cpu]))
    return TIMES.rates(TABLE[name], task, batch * entry, columns, 0.9)


def rate(*request):
    return rates(*request).samples_per_second[0]


def cell(name, task=Task.INFERENCE, batch=8, **how):
    facts, conditions = TABLE[name], CpuConditions(task=str(task), **how)
    return Cell(facts.key, Step(facts.kernels[task], facts.parameters, 0.0, batch, conditions))


@st.composite
def trained(draw):
    name, task = draw(NETWORKS), draw(TASKS)
    return name, task if TABLE[name].trains else Task.INFERENCE


def predicted(cpu=MEASURED, vcpus=2.0, network="resnet50", task=Task.INFERENCE, **changes):
    workload = Workload(network=network, task=task, batch_size=8, dataset=IMAGENET)
    disk = DiskRate(type="memory", read_mib_per_second=None, read_iops=None)
    has = Resources(vcpus=vcpus, physical_cores=vcpus, memory_mib=65536, cpu=cpu, disk=disk)
    return MODEL.predict([(workload, replace(has, **changes))])[0]


@given(trained(), st.sampled_from([1, 8, 32]), st.floats(0.5, 64), st.floats(1, 4))
def test_more_cores_and_wider_units_never_slow_it_down(network, batch, cores, more):
    base = rate(*network, batch, cores)
    assert rate(*network, batch, cores * more) >= base * (1 - 1e-9)
    assert rate(*network, batch, cores, more) >= base * (1 - 1e-9)
    assert rate(*network, batch, 2 * cores) <= 2 * base * (1 + 1e-9)


@given(trained(), st.sampled_from([1, 8, 32]))
def test_a_larger_batch_takes_longer_and_never_much_longer_a_sample(network, batch):
    entry, two = (rate(*network, size, 1.0) for size in (batch, 2 * batch))
    # A cache that overflows costs no more than all that it was worth.
    assert entry / 3 < two < 2 * entry


def test_slopes_are_what_a_small_change_of_each_parameter_makes():
    cells = [
        cell("resnet50"),
        cell("mobilenet_v2", Task.TRAINING, 32, cores=2.0),
        cell("vgg11", Task.TRAINING, cpu="another", cores=16.0, width=2.0, speed=1.3),
        cell("bert-base-uncased", cores=0.5, width=0.5),
        cell("resnet18", batch=1, cpu="another", width=None),
    ]
    parameters = Parameters()
    steps = steps_of([entry.step for entry in cells], parameters)
    theta = np.array([prior.mean for prior in parameters.priors])
    mean, slopes = steps.linearised(theta)
    assert mean == pytest.approx(steps.log_seconds(theta))
    for number in range(1, len(theta)):
        small = np.zeros(len(theta))
        small[number] = 1e-5
        ends = steps.log_seconds(theta + small), steps.log_seconds(theta - small)
        assert slopes[:, number] == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-5)


def test_a_fit_finds_the_rates_that_made_its_rows():
    cells = [
        cell(name, task, batch, cores=cores)
        for name in ("resnet18", "vgg11", "mobilenet_v2", "googlenet")
        for task in (Task.INFERENCE, Task.TRAINING)
        for batch, cores in ((1, 1.0), (8, 1.0), (32, 2.0))
    ]
    parameters = Parameters()
    steps = steps_of([entry.step for entry in cells], parameters)
    truth = np.array([prior.mean for prior in parameters.priors])
    for name, moved in (("compute", -0.4), ("memory", -0.3), ("kernel", 0.4), ("cache", 0.5)):
        truth[parameters.place[name]] += moved
    seconds = steps.log_seconds(truth)
    fit = fitted(cells, seconds, np.full(len(cells), 0.02))
    assert np.abs(fitted_logs(fit, cells) - seconds).max() < 0.05


def test_a_measured_step_moves_its_cpu_and_bounds_follow_what_is_unsure():
    slow = cell("resnet50", cpu="Xeon of a user", cores=8.0, width=2.0)
    like = cell("vgg11", cpu="Xeon of a user", cores=8.0, width=2.0)
    before = TIMES.posterior.predict([slow, like])
    expected = before.mean[:1] + 0.5
    after = TIMES.posterior.condition([slow], expected, np.full(1, 0.03)).predict([slow, like])
    assert after.mean[0] == pytest.approx(expected[0], abs=0.05)
    assert 0.2 < after.mean[1] - before.mean[1] < 0.6
    assert (after.variance < before.variance).all()

    def half(*request):
        return rates(*request).lower[0]

    known, new = (half(name, Task.INFERENCE, 8, 1.0) for name in ("resnet50", "vit_b_16"))
    assert known < new
    assert known < half("resnet50", Task.INFERENCE, 8, 1.0, 1.0, "another")
    assert half("vgg11", Task.INFERENCE, 8, 1.0) < half("vgg11", Task.INFERENCE, 8, 1.0, 2.0)
    assert half("vgg11", Task.INFERENCE, 8, 2.0) < half("vgg11", Task.INFERENCE, 8, 16.0)


def test_networks_and_decoding_share_the_cores_so_that_times_add():
    entry = predicted()
    assert entry.median < entry.stage_rates["accelerator"]
    times = sum(1 / entry.stage_rates[stage] for stage in ("accelerator", "host"))
    assert 1 / entry.median == pytest.approx(times, rel=0.05)


def test_unknown_and_far_cpus_are_in_doubt_and_wider_units_are_worth_half():
    same = predicted()
    other = predicted(replace(MEASURED, model="Intel Xeon Platinum 8488C", single_thread_score=3200))
    unknown = predicted(Cpu(model="", architecture="x86_64", single_thread_score=None))
    arm = predicted(Cpu(model="Neoverse-N1", architecture="arm64", single_thread_score=1600))
    many = predicted(vcpus=32.0)
    widths = [each.upper / each.lower for each in (same, other, unknown, arm)]
    assert widths == sorted(set(widths))
    assert widths[0] < many.upper / many.lower
    assert same.provenance == many.provenance == "modelled"
    narrow, usual, wide = (rate("vgg11", Task.INFERENCE, 32, 1.0, by) for by in (0.5, 1.0, 2.0))
    assert usual / narrow == pytest.approx(2.0, rel=0.1)
    assert 1.2 < wide / usual <= 2**0.5
    assert math.isnan(relative_width("Something Else"))
    known, unknown = (rates("vgg11", Task.INFERENCE, 8, 1.0, by) for by in (1.0, math.nan))
    assert unknown.samples_per_second == pytest.approx(known.samples_per_second)
    assert unknown.lower > known.lower


@pytest.mark.parametrize(("model", "width"), CASES["units_are_as_wide_as_their_makers_say"])
def test_units_are_as_wide_as_their_makers_say(model, width):
    assert relative_width(model) == width


def test_the_file_comes_back_whole(tmp_path):
    path = tmp_path / "cpu.npz"
    write_cpu_step_times(TIMES, path)
    again = cpu_step_times_from(np.load(path))
    assert (again.id, again.quantiles) == (TIMES.id, TIMES.quantiles)
    assert again.posterior.mean == pytest.approx(TIMES.posterior.mean)
