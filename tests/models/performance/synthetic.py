"""Measurements that follow the physical form, with noise: the truth is known."""

import itertools

import numpy as np
from msgspec.structs import replace

from advisor.domain import (
    IMAGENET,
    Accelerator,
    Cpu,
    DiskRate,
    Gpu,
    LimitedBy,
    Measurement,
    Resources,
    Status,
    Task,
    Trial,
    Workload,
)
from advisor.models.performance.cpu_step_times import published_on_cpu
from advisor.models.performance.machines import ReferenceCpu
from advisor.models.performance.networks import bundled_networks
from advisor.models.performance.pipeline import PIPELINE_PRIORS, Pipeline, PipelineRequest, pipeline_columns
from advisor.runs.fitting import reference_cpu

# The sheet of a card that tells the least, of a vendor and an architecture that nobody measured.
_NAMED = {"name": "Unheard-of 1", "vendor": "Nobody", "architecture": "new", "compute_capability": None}
UNHEARD_OF = Gpu(**_NAMED, memory_mib=16384, memory_gb_per_second=500.0, fp32_tflops=20.0)
DATASET = replace(IMAGENET, name="photographs", samples=10_000)
REFERENCE_SCORE = 2886.0
# How much faster than step times tell every network is on the CPU.
ON_CPU = "cpu/own"
CPU = Cpu(model="test", architecture="x86_64")


def true_parameters(**changes):
    """The prior means, with other values where the test wants them known."""
    parameters = {name: mean for name, (mean, _) in PIPELINE_PRIORS.items()}
    parameters[ON_CPU] = 0.2
    return parameters | {name.replace("__", "/"): value for name, value in changes.items()}


def resources(vcpus=2.0, memory_mib=4096.0, read=125.0):
    disk = DiskRate(type="test", read_mib_per_second=read)
    return Resources(vcpus=vcpus, physical_cores=vcpus, memory_mib=memory_mib, disk=disk, cpu=CPU)


def trials():
    """A small sweep: vCPUs x memory x disk on an emulated GPU and on the CPU."""
    grid = itertools.product((0.5, 1.0, 2.0), (1024.0, 4096.0), (20.0, 125.0))
    steps = (
        {"googlenet": Task.INFERENCE, "resnet50": Task.TRAINING}.items(),
        (("emulated:T4", 0.05), ("cpu", None)),
    )
    return [
        Trial(
            workload=Workload(network=network, task=task, batch_size=32, dataset=DATASET),
            resources=machine,
            accelerator=Accelerator.parse(accelerator),
            emulated_step_seconds=seconds,
        )
        for machine in itertools.starmap(resources, grid)
        for (network, task), (accelerator, seconds) in itertools.product(*steps)
    ]


def measure(trials_, parameters, noise=0.03, seed=0):
    """What the physical form gives for each trial, times lognormal noise."""
    table = bundled_networks()
    rows = [PipelineRequest.of(trial) for trial in trials_]
    columns = pipeline_columns(rows, table)
    alone = [published_on_cpu(t.workload, table[t.workload.network], t.resources) for t in trials_]
    on_cpu = np.array(alone) * np.exp(parameters[ON_CPU])
    emulated = np.array([t.workload.batch_size / (t.emulated_step_seconds or 1) for t in trials_])
    accelerator = np.where(columns.on_cpu > 0, on_cpu, emulated)
    reference = ReferenceCpu(score=REFERENCE_SCORE, sigma=0.1)
    pipeline = Pipeline(parameters=parameters, reference=reference, largest_vcpus=1.0, residuals={})
    rates = pipeline.join(columns, pipeline.stage_rates(columns, accelerator))[0]
    noisy = rates * np.exp(noise * np.random.default_rng(seed).standard_normal(len(rates)))
    return [
        measurement(trial, rate, alone if cpu else None)
        for trial, rate, alone, cpu in zip(trials_, noisy, on_cpu, columns.on_cpu, strict=True)
    ]


def measurement(trial, rate, alone=None, status=Status.OK, limited_by=LimitedBy.CGROUP_V1):
    """One measurement over an epoch, whose steps all give `rate` samples per second."""
    workload = trial.workload
    steps = max(5, round(workload.dataset.samples / workload.batch_size))
    return Measurement(
        trial=trial,
        status=status,
        limited_by=limited_by,
        step_seconds=(workload.batch_size / rate,) * steps,
        stage_rates={"accelerator": float(alone)} if alone else {},
        started_at="2026-01-02T03:04:05+00:00",
        environment={"cpu_model": CPU.model},
    )


# CPUs as the kernel names them: the share of its mark that each reaches, and by how much contention
# and second threads differ (logarithms).
CPU_KINDS = {
    "Intel(R) Xeon(R) Platinum 8259CL CPU @ 2.50GHz": (0.8, 0.5, 0.3),
    "AMD EPYC 7R32": (1.2, 0.0, -0.3),
    "Intel(R) Xeon(R) Platinum 8488C": (1.0, -0.5, 0.0),
}


def sweep_over_cpus(noise=0.03, seed=0):
    """The small sweep, up to 16 vCPUs with second threads, on nodes with each of `CPU_KINDS`."""
    return [row for number, kind in enumerate(CPU_KINDS) for row in _sweep_on(kind, noise, seed + number)]


def _sweep_on(kind, noise, seed):
    speed, contention, second_thread = CPU_KINDS[kind]
    parameters = true_parameters()
    parameters["host/contention"] += contention
    parameters["host/second_thread"] += second_thread
    for name in parameters:
        if name.startswith("host/seconds"):
            parameters[name] -= np.log(speed)
    score = reference_cpu(replace(measurement(trials()[0], 1.0), environment=_on(kind))).score
    cpu = Cpu(model=kind, architecture="x86_64", single_thread_score=score)
    made = [
        replace(trial, resources=replace(trial.resources, vcpus=vcpus, physical_cores=vcpus / 2, cpu=cpu))
        for trial in trials()
        for vcpus in (trial.resources.vcpus, 8 * trial.resources.vcpus)
    ]
    rows = measure(made, parameters, noise=noise, seed=seed)
    return [replace(row, environment=_on(kind)) for row in rows]


def _on(kind):
    return {"cpu_model": kind}
