"""One trial in a process of its own: its answer, its end, and the cause of a bad one in words."""

import errno
import json
import os
import resource
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import Mock

import pytest
from msgspec.structs import replace

from advisor.domain import LimitedBy, MemoryFormat, Precision, Stack, Status, Task
from advisor.errors import DataError, MeasuringError
from advisor.sweeps.formats import measurement_to_dict
from advisor.sweeps.machine.environment import allowed_cpus, describe_container, device_number
from advisor.sweeps.trial.child import ending_of, recognised_ending
from advisor.sweeps.trial.formatting import steps_text, trial_name
from advisor.sweeps.trial.limits import ResourceLimits
from advisor.sweeps.trial.placement import GpuDevice, Placement
from advisor.sweeps.trial.trial_process import measure_trial, run_attempt, timeout_of
from tests.processes import gone
from tests.sweeps.builders import TIME_BOX, measurement, trial
from tests.sweeps.machine.nvml_standin import GpuStandIn, nvml_with

HERE = str(Path(__file__).parent)


def attempt(script, **options):
    command = (sys.executable, "-c", f"import json, os, sys, time\n{script}")
    return run_attempt(trial(dataset_path=HERE), limits=ResourceLimits, command=command, **options)


def answering(**changes):
    row = measurement(trial=trial(dataset_path=HERE), **changes)
    return f"print({json.dumps(measurement_to_dict(row))!r})"


def test_the_answer_is_the_measurement_with_what_held_the_trial_and_the_machine_around_it():
    """A bare number of a library is no answer either."""
    row = attempt(f"sys.stdin.readline()\nprint('a banner')\nprint(3)\nprint('null')\n{answering()}")
    assert row.status is Status.OK
    assert row.step_seconds == measurement().step_seconds
    assert attempt(answering(limited_by=LimitedBy.HOST)).limited_by is LimitedBy.NONE
    script = "sys.stdin.readline()\nprint('\"ready\"', flush=True)\nsys.stdin.readline()\n"
    assert attempt(script + answering()).status is Status.OK
    row = attempt(answering(environment={"cpu_quota": 0.01, "usable_cpus": 0}))
    assert {**row.environment, **describe_container()} == row.environment


def test_what_a_trial_takes_is_looked_at_before_its_worker_begins(monkeypatch):
    """Idle at the first reading, and busy from then on."""
    nvml_with(monkeypatch, GpuStandIn(busy=[0, 99]))
    cpus, gpu = tuple(allowed_cpus()[-1:]), GpuDevice("GPU-6f6d")
    row = attempt(answering(), taking=lambda *_, **__: nullcontext(Placement(cpus, gpus=(gpu,))))
    assert row.environment["gpu_utilization_before_percent"] == 0
    taken = []

    def take(*_, disk, **__):
        taken.append(disk)
        return nullcontext(Placement(tuple(allowed_cpus()[-1:])))

    for device in ("259:0", None):
        monkeypatch.setattr("advisor.sweeps.trial.trial_process.block_device", Mock(return_value=device))
        attempt(answering(), taking=take)
    assert taken == ["259:0", device_number(Path(HERE))]


@pytest.mark.skipif(len(allowed_cpus()) < 2, reason="a neighbour needs a CPU of its own")
def test_a_trial_may_have_neighbours_unless_it_has_every_cpu():
    def marked(cpus, **options):
        where = Placement(tuple(cpus))
        row = attempt(answering(), taking=lambda *_, **__: nullcontext(where), **options)
        return row.environment["side_by_side"]

    assert marked(allowed_cpus()[:1], side_by_side=True)
    assert not marked(allowed_cpus(), side_by_side=True)
    assert not marked(allowed_cpus()[:1])


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("sys.exit('no such device')", "no such device"),
        ("os.kill(os.getpid(), 9)", "killed from outside (signal 9)"),
        ('print(\'{"schema": "odd"}\')', "no measurement"),
    ],
    ids=["last words", "killed", "no measurement"],
)
def test_a_worker_without_an_answer_fails_its_trial_alone_and_says_why(script, reason):
    row = attempt(script)
    assert row.status is Status.FAILED
    assert reason in row.reason
    assert "\n" not in row.reason


def test_a_worker_that_hangs_is_ended_and_children_end_with_their_worker(tmp_path):
    row = attempt("print(os.getpid(), file=sys.stderr)\ntime.sleep(600)", timeout_seconds=0.2)
    assert row.status is Status.TIMED_OUT
    assert row.started_at
    note = tmp_path / "pid"
    begun = "import subprocess\nchild = subprocess.Popen(['sleep', '600'])\n"
    attempt(f"{begun}open({str(note)!r}, 'w').write(str(child.pid))")
    assert gone(int(note.read_text()))


def test_a_fault_around_a_trial_fails_it_alone_and_keeps_what_was_measured():
    row = run_attempt(trial(dataset_path="/no/such/place"))
    assert row.status is Status.FAILED
    assert "'/no/such/place' cannot be reached (No such file" in row.reason
    row = run_attempt(trial(dataset_path=HERE), limits=Mock(side_effect=KeyError("a mistake")))
    assert row.status is Status.FAILED
    assert "a mistake" in row.reason
    row = run_attempt(trial(dataset_path=HERE), limits=Leaving, command=(sys.executable, "-c", answering()))
    assert row.status is Status.OK
    assert row.step_seconds == measurement().step_seconds
    assert "cannot remove the cgroup" in row.reason


class Leaving(ResourceLimits):
    def __exit__(self, *error):
        raise MeasuringError("cannot remove the cgroup")


def test_a_spoiled_trial_is_repeated_waits_for_a_quieter_machine_and_counts_or_is_left_where_the_user_says_so(
    monkeypatch,
):
    """Others keep the machine busy: it looks every two seconds, longer before the third attempt."""
    spoiled = measurement(status=Status.CONTAMINATED, step_seconds=(9.0,))
    answers = iter([spoiled, measurement()])
    row = measure_trial(trial(), attempt=lambda _trial: next(answers), sleep=lambda _seconds: None)
    assert row.status is Status.OK
    assert [kept["step_seconds"] for kept in row.attempts] == [[9.0]]
    monkeypatch.setattr("advisor.sweeps.trial.trial_process.busy_share", lambda: 0.9)
    spoiled, slept = measurement(status=Status.CONTAMINATED, environment={"other_cores": 0.5}), []
    measure_trial(trial(), attempt=lambda _trial: spoiled, sleep=slept.append)
    assert sum(slept) == 20 + 60
    spoiled = measurement(status=Status.CONTAMINATED, environment={"other_cores": 0.5})
    accepted, skipped = (
        measure_trial(trial(), attempt=lambda _trial: spoiled, when_busy=way, sleep=pytest.fail)
        for way in ("accept", "skip")
    )
    assert (accepted.status, accepted.environment["accepted_when_busy"]) == (Status.OK, True)
    assert (skipped.status, skipped.attempts) == (Status.CONTAMINATED, ())


@pytest.mark.parametrize(
    ("others", "reason"),
    [
        ({"other_cores": 0.25}, "0.25 cores in each of 3 attempts"),
        ({"other_cores": 0.01, "gpu_other_processes": 2}, "its GPU (2 of them) in each of 3 attempts"),
    ],
)
def test_a_trial_that_is_never_clean_says_so_and_who_took_how_much(others, reason):
    spoiled = measurement(status=Status.CONTAMINATED, environment=others)
    row = measure_trial(trial(), attempt=lambda _trial: spoiled, sleep=lambda _seconds: None)
    assert row.status is Status.CONTAMINATED
    assert len(row.attempts) == 2
    assert reason in row.reason


def test_this_process_does_not_import_torch_to_measure():
    modules = ", ".join(
        f"advisor.sweeps.{name}" for name in ("trial.trial_process", "run.runner", "planning.plan")
    )
    code = f"import sys, {modules}; print('torch' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "False"


def test_a_minute_that_does_not_count_takes_nothing_from_a_trials_time():
    heated = trial(plan={**TIME_BOX, "warmup_seconds": 60.0})
    assert timeout_of(heated) == timeout_of(trial()) + 60


# Causes are found in what is said, since a loader process sends its errors as text.


def from_loader(last_line):
    """As torch's ExceptionWrapper raises it again in the main process."""
    head = "Caught DataError in DataLoader worker process 0.\nOriginal Traceback (most recent"
    return RuntimeError(f"{head} call last):\n  File ...\n{last_line}\n")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (from_loader("advisor.errors.DataError: '/d/7.jpg' cannot be read"), "'/d/7.jpg' cannot"),
        (from_loader("OSError: [Errno 5] Input/output error"), "the disk beneath"),
        (OSError(errno.EIO, os.strerror(errno.EIO), "/d/7.jpg"), "'/d/7.jpg'"),
        (OSError(errno.ESTALE, os.strerror(errno.ESTALE)), "check the mount"),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/tmp/x"), "the disk of '/tmp/x' is full"),
        (RuntimeError("unable to allocate shared memory(shm) for file </t>: No space left"), "--shm-size"),
        (RuntimeError("DataLoader worker (pid 7) is killed by signal: Bus error."), "/dev/shm is full"),
        (AssertionError("Torch not compiled with CUDA enabled"), "torch sees no CUDA device"),
        (RuntimeError("CUDA error: unspecified launch failure"), "Xid"),
        (ValueError("two\nlines"), "ValueError: two lines"),
    ],
)
def test_each_fault_is_told_on_one_line_with_what_it_is_about(error, words, tmp_path):
    ending = ending_of(error, str(tmp_path))
    assert ending.status is Status.FAILED
    assert words in ending.reason
    assert "\n" not in ending.reason
    assert "advisor.errors" not in ending.reason


@pytest.mark.parametrize(
    ("error", "whose"),
    [
        (MemoryError(), "the machine's memory"),
        (RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"), "the GPU's memory"),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling"), "the GPU's memory"),
        (RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"), "the GPU's memory"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), "the machine's"),
        (OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)), "the machine's memory"),
    ],
)
def test_too_little_memory_is_a_result_that_names_which(error, whose, monkeypatch):
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    monkeypatch.setattr("resource.getrlimit", lambda _: unlimited)
    ending = ending_of(error)
    assert ending.status is Status.OUT_OF_MEMORY
    assert ending.reason.startswith(whose)
    monkeypatch.setattr("resource.getrlimit", lambda _: (512 * 2**20, 512 * 2**20))
    assert "limit of 512 MiB" in ending_of(MemoryError()).reason


def test_a_data_set_that_has_gone_is_the_cause_and_an_unknown_cause_is_left_to_the_caller(tmp_path):
    ending = ending_of(from_loader("advisor.errors.DataError: 7.jpg is no image"), "/no/such/set")
    assert "'/no/such/set' cannot be reached (No such file or directory)" in ending.reason
    assert "7.jpg is no image" in ending.reason
    assert recognised_ending(ValueError("x"), str(tmp_path)) is None
    assert recognised_ending(DataError("x"), str(tmp_path)).reason == "x"


# How a trial is told apart from its neighbours.


def test_a_trial_is_told_by_its_gpus_and_by_what_is_not_usual():
    entry = trial(accelerator="cuda:T4", task=Task.INFERENCE)
    assert steps_text(entry) == "cuda:T4"
    assert steps_text(replace(entry, resources=replace(entry.resources, gpu_count=4))) == "4 x cuda:T4"
    how = {"memory_format": MemoryFormat.CHANNELS_LAST, "stack": Stack.COMPILE}
    workload = replace(entry.workload, precision=Precision.AMP, **how)
    searching = replace(entry, workload=workload, plan={**TIME_BOX, "cudnn_benchmark": True})
    assert steps_text(searching) == "cuda:T4 amp channels_last compile cudnn_benchmark"
    assert steps_text(searching) in trial_name(searching)
