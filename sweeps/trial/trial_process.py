"""Measures one trial in a separate process under limits, again if other load disturbed it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from advisor.domain import MOUNTED, CacheState, Measurement, Status, Trial
from advisor.sweeps.events import INFO, WARNING, emit
from advisor.sweeps.formats import measurement_from_dict, run_facts, trial_to_dict
from advisor.sweeps.machine.environment import (
    allowed_cpus,
    block_device,
    carved_from,
    describe_container,
    device_number,
)
from advisor.sweeps.machine.gpu import busy_percent
from advisor.sweeps.machine.processes import busy_share
from advisor.sweeps.quality.issues import is_gpu_shared
from advisor.sweeps.trial import child
from advisor.sweeps.trial.cgroups import strongest_limits
from advisor.sweeps.trial.disk_burst import with_disk_burst
from advisor.sweeps.trial.formatting import ending_facts
from advisor.sweeps.trial.limits import LimitRequest, ResourceLimits, request_for
from advisor.sweeps.trial.placement import VISIBLE_GPUS, Placement, placed

Place = Callable[..., AbstractContextManager[Placement]]  # like `placement.placed`

TIMEOUT_SECONDS = 900.0
# Ten thousand steps of a slow trial take hours.
TIMEOUT_SECONDS_OF_ITERATIONS = 6 * 3600.0
REPEATS_WHEN_SPOILED = 2
# For a trial that other load disturbed: wait and measure again, accept its measurement, or keep it as
# contaminated.
WAIT, ACCEPT, SKIP = "wait", "accept", "skip"
WHEN_BUSY = (WAIT, ACCEPT, SKIP)
# The longest waits before the second and the third attempt; they end once the machine is quiet.
_PAUSES = (20.0, 60.0)
LONGEST_PAUSES = sum(_PAUSES)
# The share of time in which tasks wait for a CPU, above which a machine is busy.
BUSY_SHARE = 0.2


def measure_trial(
    trial: Trial,
    *,
    attempt: Callable[[Trial], Measurement] | None = None,
    repeats: int = REPEATS_WHEN_SPOILED,
    when_busy: str = WAIT,
    sleep: Callable[[float], None] = time.sleep,
) -> Measurement:
    """Measure a trial; if other load disturbed it, measure it again once the machine is quieter, up to
    `repeats` times, unless `when_busy` says otherwise.

    The measurement keeps the raw disturbed attempts. No error of the trial is raised: every ending is a
    measurement with a status and a reason."""
    attempt = attempt or run_attempt
    measurement = _logged_attempt(attempt, trial, 1)
    disturbed: list[dict[str, Any]] = []
    if when_busy == ACCEPT and measurement.status is Status.CONTAMINATED:
        environment = {**measurement.environment, "accepted_when_busy": True}
        return replace(measurement, status=Status.OK, environment=environment)
    repeats = 0 if when_busy == SKIP else repeats
    while measurement.status is Status.CONTAMINATED and len(disturbed) < repeats:
        disturbed.append(run_facts(measurement))
        left = _PAUSES[min(len(disturbed), len(_PAUSES)) - 1]
        if (share := busy_share()) > BUSY_SHARE:
            news = {"busy_share": round(share, 2), "most_seconds": left}
            emit("waits_for_quiet", trial_id=trial.trial_id, level=WARNING, **news)
        while left > 0 and busy_share() > BUSY_SHARE:
            sleep(min(left, 2.0))
            left -= 2.0
        measurement = _logged_attempt(attempt, trial, 1 + len(disturbed))
    if measurement.status is Status.CONTAMINATED:
        when = f"in each of {len(disturbed) + 1} attempts" if disturbed else "meanwhile"
        facts = measurement.environment
        if is_gpu_shared(facts):
            used = f"its GPU ({facts['gpu_other_processes']} of them)"
        else:
            used = f"{facts['other_cores']:.2f} cores"
        reason = f"other processes used {used} {when}; measure again when the machine is quiet"
        measurement = replace(measurement, reason=reason)
    return replace(measurement, attempts=tuple(disturbed))


def timeout_of(trial: Trial) -> float:
    """Seconds that one attempt may take."""
    longest = TIMEOUT_SECONDS_OF_ITERATIONS if trial.plan.get("iterations") else TIMEOUT_SECONDS
    return longest + float(trial.plan.get("warmup_seconds", 0.0))


def _logged_attempt(attempt: Callable[[Trial], Measurement], trial: Trial, number: int) -> Measurement:
    trial_id, begun = trial.trial_id, time.monotonic()
    emit("attempt_began", trial_id=trial_id, attempt=number)
    measurement = attempt(trial)
    facts = {"attempt": number, "seconds": round(time.monotonic() - begun, 3), **ending_facts(measurement)}
    level = INFO if measurement.status is Status.OK else WARNING
    emit("attempt_ended", trial_id=trial_id, level=level, **facts)
    return measurement


def trial_place(
    trial: Trial, side_by_side: bool, *, taking: Place = placed, **options: Any
) -> AbstractContextManager[Placement]:
    """Reserve the CPUs, memory, GPUs and disk of the trial inside the block. Trials that run `side_by_side`
    share the disk only if each has its data set in memory."""
    # The data set's whole disk, as partitions share its rate; or else its file system.
    folder = Path(trial.dataset_path)
    return taking(
        trial.resources.vcpus,
        memory_mib=trial.resources.memory_mib,
        on_gpu=trial.accelerator.is_gpu,
        gpu_count=trial.processes,
        disk=(block_device(folder) or device_number(folder)) if trial.dataset_path else "",
        shares_disk=side_by_side and stays_in_memory(trial),
        trial_id=trial.trial_id,
        **options,
    )


def run_attempt(
    trial: Trial,
    *,
    limits: Callable[[LimitRequest], ResourceLimits] = strongest_limits,
    command: Sequence[str] = child.WORKER_COMMAND,
    timeout_seconds: float | None = None,
    taking: Place = placed,
    side_by_side: bool = False,
) -> Measurement:
    """Measure once in a new worker under the trial's limits, on reserved CPUs and GPUs.

    `side_by_side`: other trials may run on this machine meanwhile. Trials share a disk only if each has its
    data set in memory: one that empties the page cache, or reads the disk, must have it alone."""
    started_at = datetime.now(UTC).isoformat()
    timeout_seconds = timeout_of(trial) if timeout_seconds is None else timeout_seconds
    measurement = None
    try:
        with trial_place(trial, side_by_side, taking=taking) as placement:
            request = request_for(trial.resources, placement.cpus, block_device(Path(trial.dataset_path)))
            if trial.on_mounted_disk:  # the volume itself is the limit
                request = replace(request, read_mib_per_second=None, read_iops=None)
            busy = busy_percent(placement.gpu.uuid) if placement.gpu else None
            before = {} if busy is None else {"gpu_utilization_before_percent": busy}
            # Only the trial's GPUs, if any, are visible: a CUDA context takes about 1 GiB of its memory.
            visible = {VISIBLE_GPUS: ",".join(gpu.uuid for gpu in placement.gpus)}
            shown = {} if trial.accelerator.is_gpu and not placement.gpus else visible
            with limits(request) as hold, child.started_worker(command, shown) as worker:
                emit("worker_started", trial_id=trial.trial_id, worker_pid=worker.pid)
                measurement = _worker_measurement(trial, side_by_side, request, hold, worker, timeout_seconds)
                measurement = _with_place(measurement, placement, side_by_side, before)
                # A kill for memory is the cause of whatever the worker reported last.
                if not measurement.step_seconds and hold.killed_for_memory():
                    measurement = replace(
                        measurement, status=Status.OUT_OF_MEMORY, reason=_memory_limit_text(trial)
                    )
        measurement = with_disk_burst(measurement)
    except Exception as error:  # even our bugs must not end the other trials
        if measurement is not None:  # the error came from cleaning up
            left = f"not all of it could be ended ({error}); does its disk still answer?"
            measurement = replace(measurement, reason="; ".join(filter(None, (measurement.reason, left))))
        else:
            known = child.recognised_ending(error, trial.dataset_path)
            ending = known or child.Ending(Status.FAILED, f"cannot be started under limits: {error!r}")
            measurement = ending.measurement(trial)
    return measurement if measurement.started_at else replace(measurement, started_at=started_at)


def stays_in_memory(trial: Trial) -> bool:
    """True if the timed run reads nothing from the disk."""
    return trial.cache is CacheState.WARM and not trial.overflows_memory


def _worker_measurement(
    trial: Trial,
    side_by_side: bool,
    request: LimitRequest,
    hold: ResourceLimits,
    worker: child.Worker,
    timeout_seconds: float,
) -> Measurement:
    """Send the worker its job, and return its measurement. `hold` is read last, as limits may have been
    removed during the trial."""
    deadline = time.monotonic() + timeout_seconds
    job = {  # as advisor.sweeps.worker.__main__ reads it
        "trial": trial_to_dict(trial),
        "usage_source": dict(hold.usage_source()),
        "cpus": list(request.cpus),
        "shares_disk": side_by_side and stays_in_memory(trial),
        "wait_for_go": True,
    }
    try:
        hold.add(worker.pid)
        worker.send(job)
        answer = _answer_under_limits(trial, request, hold, worker, deadline)
        measurement = measurement_from_dict(answer)
        if answer.get(child.STAGES_FOLLOW):
            measurement = _with_stages(measurement, hold, worker, deadline)
    except child.WorkerLate:
        reason = (
            f"no answer within {timeout_seconds:g} s, so it was ended; does the disk of "
            f"'{trial.dataset_path}' answer, and the accelerator?"
        )
        return child.Ending(Status.TIMED_OUT, reason).measurement(trial, hold.limited_by)
    except MemoryError as error:
        return child.Ending(Status.OUT_OF_MEMORY, str(error)).measurement(trial, hold.limited_by)
    except (child.WorkerEnded, ProcessLookupError):
        return child.Ending(Status.FAILED, worker.last_output()).measurement(trial, hold.limited_by)
    environment = {
        **measurement.environment,
        **describe_container(),  # read here: the worker would see the trial's cgroup as its container
        "limits_held": dict(hold.held),
        "disk": request.device,
        # A volume of that type, or this machine's disk: limited to rate and IOPS (the worker delays reads for
        # the latency), or as it is.
        "disk_source": MOUNTED if trial.on_mounted_disk else "throttled" if request.limits_disk else "host",
    }
    return replace(measurement, trial=trial, limited_by=hold.limited_by, environment=environment)


def _answer_under_limits(
    trial: Trial, request: LimitRequest, hold: ResourceLimits, worker: child.Worker, deadline: float
) -> Any:
    """The worker's answer, after switching on the limits of each stage when it waits for them."""
    answer = worker.receive(deadline)
    for stage, switch_on in ((child.LOADED, hold.limit_memory), (child.READY, hold.engage)):
        if answer == stage:
            switch_on()
            if stage == child.READY:
                rates = ("vcpus", "memory_mib", "read_mib_per_second", "read_iops")
                facts = {"cpus": list(request.cpus), **{name: getattr(request, name) for name in rates}}
                emit("limits_on", trial_id=trial.trial_id, limited_by=hold.limited_by.value, **facts)
            worker.send("go")
            answer = worker.receive(deadline)
    return answer


def _with_stages(
    measured: Measurement, hold: ResourceLimits, worker: child.Worker, deadline: float
) -> Measurement:
    """The measurement with its stages; if the worker failed in them, the measurement before them."""
    try:
        whole = measurement_from_dict(worker.receive(deadline))
        if whole.step_seconds:
            return whole
        reason = whole.reason
    except child.WorkerLate:
        reason = "no answer in time"
    except child.WorkerEnded:
        reason = worker.last_output()
    if hold.killed_for_memory():
        reason = _memory_limit_text(measured.trial)
    facts = {**measured.environment, "stage_failures": {"worker": reason}}
    return replace(measured, environment=facts)


def _with_place(
    measurement: Measurement, placement: Placement, side_by_side: bool, before: dict[str, Any]
) -> Measurement:
    """The measurement with facts of its placement: CPUs, NUMA node, GPUs and their load before, and the size
    of the machine. A trial with all CPUs does not count as side by side."""
    facts = {
        **measurement.environment,
        **before,
        "cpus_used": list(placement.cpus),
        "numa_node": placement.numa_node,
        "carved_from": carved_from(placement.cpus),
        "side_by_side": side_by_side and len(placement.cpus) < len(allowed_cpus()),
    }
    if placement.gpu:
        facts |= {"gpu_uuid": placement.gpu.uuid, "gpu_is_near": placement.gpu_is_near}
    if len(placement.gpus) > 1:
        facts["gpu_uuids"] = [gpu.uuid for gpu in placement.gpus]
    return replace(measurement, environment=facts)


def _memory_limit_text(trial: Trial) -> str:
    return f"the kernel killed it at its limit of {trial.resources.memory_mib:g} MiB"
