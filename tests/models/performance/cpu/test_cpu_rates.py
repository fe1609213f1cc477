"""Rates of networks on a CPU: more and faster cores never hurt, doubts grow with the distance."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.domain import IMAGENET, Cpu, DiskRate, Resources, Task, Workload
from models.performance import load_model
from models.performance.cpu import bundled_cpu_rates, vector_factor
from models.performance.cpu.fitting import fit_parameters, log_residuals
from models.performance.cpu.form import FORMS, ROOFLINE
from models.performance.cpu.rates import from_document, to_document
from models.performance.cpu.records import CpuRow
from models.performance.networks import bundled_networks

TABLE, RATES, MODEL = bundled_networks(), bundled_cpu_rates(), load_model()
TASKS = st.sampled_from([Task.INFERENCE, Task.TRAINING])
NETWORKS = st.sampled_from(TABLE.names)
MEASURED = Cpu(model="AMD EPYC 9R14", architecture="x86_64", single_thread_score=2887.6)


def rate(name, task, batch, cores, vector=1.0):
    one = np.ones(1)
    return RATES.rates(TABLE[name], task, batch * one, cores * one, vector * one)[0]


def predicted(cpu=MEASURED, vcpus=2.0, network="resnet50", task=Task.INFERENCE, **changes):
    workload = Workload(network=network, task=task, batch_size=8, dataset=IMAGENET)
    has = Resources(
        vcpus=vcpus, physical_cores=vcpus, memory_mib=65536, cpu=cpu,
        disk=DiskRate(type="memory", read_mib_per_second=None, read_iops=None),
    )  # fmt: skip
    return MODEL.predict([(workload, replace(has, **changes))])[0]


def width(one):
    return one.upper / one.lower


@given(NETWORKS, TASKS, st.sampled_from([1, 8, 32]), st.floats(0.5, 64), st.floats(1, 4))
def test_more_cores_wider_units_and_larger_batches_never_slow_it_down(name, task, batch, n, more):
    base = rate(name, task, batch, n)
    assert rate(name, task, batch, n * more) >= base * (1 - 1e-9)
    assert rate(name, task, batch, n, more) >= base * (1 - 1e-9)
    assert rate(name, task, 2 * batch, n) >= base * (1 - 1e-9)
    assert rate(name, task, batch, 2 * n) <= 2 * base * (1 + 1e-9)


@given(NETWORKS, st.integers(1, 64))
def test_training_a_network_takes_longer_than_asking_it(name, batch):
    assert rate(name, Task.TRAINING, batch, 1.0) < rate(name, Task.INFERENCE, batch, 1.0)


@pytest.mark.parametrize("form", FORMS.values(), ids=list(FORMS))
def test_a_fit_finds_the_rates_that_made_its_rows(form):
    names = ("resnet18", "vgg11", "mobilenet_v2", "googlenet")
    truth = {"compute": np.log(40e9), "memory": np.log(6e9), "kernel": np.log(3e-5)}
    truth |= {"scaling/compute": np.log(0.05), "scaling/memory": np.log(0.3)}
    empty = [
        CpuRow(name, task, batch, cores, 1.0)
        for name in names
        for task in (Task.INFERENCE, Task.TRAINING)
        for batch, cores in ((1, 1.0), (8, 1.0), (32, 2.0))
    ]
    seconds = np.exp(log_residuals(empty, truth, TABLE, form))
    rows = [replace(row, seconds=float(s)) for row, s in zip(empty, seconds, strict=True)]
    found = fit_parameters(rows, TABLE, form)
    assert np.abs(log_residuals(rows, found, TABLE, form)).max() < 0.05


def test_networks_and_decoding_share_the_cores_so_that_times_add():
    one = predicted()
    assert one.median < one.stage_rates["accelerator"]
    times = sum(1 / one.stage_rates[stage] for stage in ("accelerator", "host"))
    assert 1 / one.median == pytest.approx(times, rel=0.05)


def test_the_farther_the_cpu_the_wider_the_interval():
    same = predicted()
    other = predicted(
        replace(MEASURED, model="Intel Xeon Platinum 8488C", single_thread_score=3200)
    )
    unknown = predicted(Cpu(model="", architecture="x86_64", single_thread_score=None))
    arm = predicted(Cpu(model="Neoverse-N1", architecture="arm64", single_thread_score=1600))
    many = predicted(vcpus=32.0)
    assert width(same) < width(other) < width(unknown) < width(arm)
    assert width(same) < width(many)


def test_what_no_machine_of_this_kind_ran_is_modelled():
    assert all(one.provenance == "modelled" for one in (predicted(), predicted(vcpus=16.0)))


@pytest.mark.parametrize(
    ("model", "factor"),
    [("Intel Xeon E5-2680 v2", 0.5), ("Intel Xeon E5-2686 v4", 1.0), ("AMD EPYC 7R32", 1.0),
     ("AMD EPYC 9R14", 1.0), ("Intel Xeon Platinum 8488C", 2**0.5), ("Neoverse-N1", 0.5)],
)  # fmt: skip
def test_units_count_as_wide_as_their_makers_say_and_no_more_than_half_of_it_beyond(model, factor):
    assert vector_factor(model)[0] == pytest.approx(factor)


def test_an_unknown_cpu_counts_as_the_measured_one_with_a_doubt():
    assert vector_factor("Something Else") == (1.0, pytest.approx(0.35))


def test_the_bundled_document_comes_back_whole():
    again = from_document(json.loads(json.dumps(to_document(RATES))))
    assert to_document(again) == to_document(RATES)
    assert again.form is ROOFLINE
