"""Verifies a target on this machine by one trial, and answers the question again with its measurement."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from datetime import date
from functools import partial
from importlib.util import find_spec

from msgspec import Struct
from msgspec.structs import replace

from advisor.answers.context import Context
from advisor.catalog.gpus import sheet_of
from advisor.domain import (
    CacheState,
    Gpu,
    InstancePrediction,
    Measurement,
    Observation,
    Prediction,
    Recommendation,
    Status,
    Task,
    Trial,
    Verification,
    Workload,
)
from advisor.engine import Preparations, recommend
from advisor.engine.candidates import USUAL_BATCH, workloads_on
from advisor.engine.single import predict_instance
from advisor.errors import DataError, MeasuringError, UsageError
from advisor.extras import install_hint
from advisor.questions.network import NetworkQuestion
from advisor.runs.questions import VerificationRun
from advisor.runs.sweeps.data import data_of_networks
from advisor.runs.sweeps.sweeping import (
    disk_rate,
    local_machine,
    only_sweep_here,
    probed_machine,
    step_seconds,
)
from advisor.runs.verification.verdict import (
    VerifiedMachine,
    gpus_of_this_machine,
    judged,
    machine_for,
    require_gpus,
    sheet_named,
)
from advisor.sweeps.anchors import observed
from advisor.sweeps.machine.environment import instance_type
from advisor.sweeps.measurement_store import MeasurementStore
from advisor.sweeps.planning.disks import UNLIMITED
from advisor.sweeps.planning.networks import planned_network
from advisor.sweeps.planning.plan import GPU_SECONDS, SweepRequest, merged, plan_trials
from advisor.sweeps.run.queue import Spool
from advisor.sweeps.run.runner import ProcessExecutor, current_rows
from advisor.sweeps.trial.trial_process import measure_trial

# The relative error at which a trial ends; other runs differ by as much anyway.
_REL_ERROR = 0.01
# A verdict needs several processes, since rates differ from one process to the next.
_RUNS = 3
_LEAST_SECONDS = 10.0
# A cold trial ends with the first epoch, so the generated data must last this long at the target.
_COLD_SECONDS = 15.0
_COLD_STEPS = 100
_SAMPLES = (2_000, 5_000, 10_000)

Say = Callable[[str], None]
Making = Callable[[int, int], None]


class VerificationTrial(Struct, frozen=True):
    """A trial that is ready to run, with the predictions for it."""

    machine: VerifiedMachine
    trial: Trial
    named: InstancePrediction | None
    predicted: Prediction | None


def plan_verification(
    request: NetworkQuestion, options: VerificationRun, context: Context, making: Making
) -> VerificationTrial:
    """Plan the trial for a request, and generate its data; `UsageError` if this machine cannot verify it."""
    assert request.target_throughput is not None
    machine, gpus_here, catalog = local_machine(), gpus_of_this_machine(), context.catalog
    name, here = options.instance.lower(), instance_type()
    on = machine_for(request.task, name, options.accelerator, catalog, machine, here, gpus_here)
    named = predict_instance(request, catalog, context.model, on.instance.name) if on.instance else None
    gpu_count = named.prediction.gpus_used if named else 1
    require_gpus(on, gpu_count, gpus_here)
    # `gpu` is also None for a GPU without a data sheet.
    gpu_name = on.emulated_gpu or next(iter(gpus_here), "")
    gpu = None if on.accelerator.is_cpu else sheet_named(catalog, gpu_name)
    workload = named.workload if named else _usual_workload(request, context, gpu)
    _refuse_slow_pace(on, workload, named, request.target_throughput)
    batch, own = gpu_count * workload.batch_size, str(options.data) if options.data else None
    samples = options.samples or samples_for(request.target_throughput, batch, on.vcpus)
    data = data_of_networks((request.network,), own, making, samples=samples)
    # On a machine that is no known instance: the requested disk type, or the machine's disk without limits.
    own_disk = disk_rate(str(request.disk)) if request.disk else UNLIMITED
    wanted = SweepRequest(
        networks=(planned_network(request.network).info.name,),
        tasks=(request.task,),
        vcpus=(on.vcpus,),
        memory_mib=(on.memory_mib,),
        disks=(on.disk_rate(named.disk) if named else own_disk,),
        accelerator=on.accelerator,
        data=data,
        batch_sizes=(workload.batch_size,),
        caches=(_cache_state(request, options, on),),
        precision=workload.precision,
        memory_formats=(workload.memory_format,),
        stacks=(workload.stack,),
        measure_seconds=min(GPU_SECONDS if on.accelerator.is_gpu else _LEAST_SECONDS, 30 * options.minutes),
        max_seconds=60 * options.minutes,
        rel_error=_REL_ERROR,
        gpu_count=gpu_count,
    )
    (trial,) = plan_trials([wanted], machine, partial(_pace, named), planned_network)
    predicted = named.prediction if named else None
    if named is None and (gpu is not None or on.accelerator.is_cpu):
        resources = replace(trial.resources, gpu=gpu)
        (predicted,) = context.model.predict([(trial.workload, resources)], confidence=request.confidence)
    return VerificationTrial(on, trial, named, predicted)


def _usual_workload(request: NetworkQuestion, context: Context, gpu: Gpu | None) -> Workload:
    """The workload with the usual batch size, for a machine that is no known instance."""
    definite = request.replace(batch_size=request.batch_size or USUAL_BATCH)
    return workloads_on(definite, context.model, [gpu])[gpu.name if gpu else ""][0]


def verify(
    request: NetworkQuestion,
    trying: VerificationTrial,
    store: MeasurementStore,
    context: Context,
    today: date,
) -> Verification:
    """Run the trial up to three times, store the measurement, and judge it. `MeasuringError` without torch,
    for a failed trial, and while a sweep runs on this machine."""
    if find_spec("torch") is None:
        raise MeasuringError("measuring needs torch", hint=install_hint("sweep"))
    fresh = _measured_runs(trying.trial, store, _RUNS, trying.trial.plan["max_seconds"])
    after = recommended_after(request, context, fresh, today)
    return judged(request, trying.machine, fresh, trying.named, trying.predicted, after)


def _measured_runs(trial: Trial, store: MeasurementStore, most: int, within_seconds: float) -> Measurement:
    """Up to `most` runs of a trial in new processes, as one measurement; they are also added to the trial's
    stored row.

    After a good run another one begins if it should end `within_seconds` of the first one's start. A
    contaminated run is not repeated, since the user waits. `MeasuringError` while a sweep runs here."""
    current_rows([trial], store)  # raises for an unreadable row now, not after the measurement
    done, begun, longest = None, time.monotonic(), 0.0
    with only_sweep_here(False), closing(ProcessExecutor(partial(measure_trial, repeats=0))) as chosen:
        for _ in range(most):
            before = time.monotonic()
            (bare,) = chosen.execute([trial])
            fresh = replace(bare, environment={**bare.environment, **probed_machine()})
            try:  # add the run to the stored row; a run that the store does not take is kept in a file
                store.join(fresh, merged)
            except DataError as error:
                spool = Spool()
                spool.keep(fresh)
                raise spool.explained(error) from error
            done = merged(done, fresh)
            longest = max(longest, time.monotonic() - before)
            late = time.monotonic() - begun + longest > within_seconds
            if late or fresh.status is not Status.OK:
                break
    assert done is not None
    return done


def recommended_after(
    request: NetworkQuestion, context: Context, fresh: Measurement, today: date
) -> Recommendation:
    """The recommendation by the model conditioned on the measurement's GPU step."""
    model = context.model
    observation = observed(fresh, "", partial(sheet_of, sheets=context.catalog.gpus))
    if isinstance(observation, Observation) and model.table.knows(observation.workload.network):
        model = replace(model, step_times=model.step_times.condition([observation], model.table))
    return recommend(request, Preparations(context.catalog, model), today=today)


def _pace(named: InstancePrediction | None, workload: Workload, gpu: str) -> float:
    """Seconds that an emulated GPU takes for a batch, including the loss from several GPUs."""
    alone = step_seconds(workload, gpu)
    return alone / named.prediction.gpu_efficiency if named else alone


def _refuse_slow_pace(
    machine: VerifiedMachine, workload: Workload, named: InstancePrediction | None, target: float
) -> None:
    """Raise `UsageError` if an emulated GPU, which has the predicted rate, misses the target anyway."""
    gpu, count = machine.emulated_gpu, named.prediction.gpus_used if named else 1
    if gpu is None:
        return
    rate = count * workload.batch_size / _pace(named, workload, gpu)
    if rate < target:
        raise UsageError(
            f"an emulated {gpu} takes {rate:,.0f}/s at batch {workload.batch_size}, less than the "
            f"{target:g} asked for, so nothing can be learnt here",
            hint="ask for less, for a larger --batch-size, or run this on a real one",
        )


def _cache_state(request: NetworkQuestion, options: VerificationRun, machine: VerifiedMachine) -> CacheState:
    """The cache of the trial: warm for training whose data fit in memory (or are the user's), else cold."""
    small = request.dataset.total_mib <= machine.memory_mib
    again = request.task is Task.TRAINING and (options.data is not None or small)
    return CacheState.WARM if again else CacheState.COLD


def samples_for(target: float, batch_size: int, vcpus: float) -> int:
    """The number of samples to generate, so that a cold trial at its target lasts long enough."""
    ahead = 5 + 4 * max(1.0, vcpus)  # batches: two for each loader, before and after
    needed = ahead * batch_size + max(_COLD_STEPS * batch_size, _COLD_SECONDS * target)
    return next((count for count in _SAMPLES if count >= needed), _SAMPLES[-1])
