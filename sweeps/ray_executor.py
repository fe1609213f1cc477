"""Trials as Ray tasks, on a Ray of its own or on a given cluster; the only file that imports ray.

Ray places trials and keeps one at a time on each accelerator, by the custom resource
`advisor_trial`. It limits nothing: each task starts a worker process under `sweeps.limits`.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from advisor.domain import LimitedBy, Measurement, Status, Trial
from advisor.errors import MeasuringError
from sweeps.limits.choosing import clean_up
from sweeps.serialization import (
    measurement_from_dict,
    measurement_to_dict,
    trial_from_dict,
    trial_to_dict,
)
from sweeps.trial_process import REPEATS_WHEN_SPOILED, TIMEOUT_SECONDS, measure_trial

TRIAL_RESOURCE = "advisor_trial"
_TASK_TIMEOUT_SECONDS = (REPEATS_WHEN_SPOILED + 1) * TIMEOUT_SECONDS + 60
_NODE_LOSS_RETRIES = 2
_CONNECT_SECONDS = 5.0
_START_ATTEMPTS = 3
_OBJECT_STORE_BYTES = 80 * 2**20  # measurements are small; Ray's default is 30 % of memory
_SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # Unlimited by default; and a trial beyond its memory is a result, not a reason to repeat.
    "RAY_task_oom_retries": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}


class RayExecutor:
    """One trial at a time on each node that offers `advisor_trial`."""

    def __init__(self, address: str | None = None) -> None:
        self._ray = _connected(address)
        try:
            self._slots = _slots(self._ray, address)
        except MeasuringError:
            self._ray.shutdown()
            raise
        # A task on each node would be needed to clean a cluster; locally it is done here.
        clean_up()
        self._task = self._ray.remote(
            num_cpus=0, resources={TRIAL_RESOURCE: 1}, max_retries=_NODE_LOSS_RETRIES
        )(_measure_remotely)
        self._running: dict[Any, tuple[Trial, float]] = {}

    def execute(self, trials: Iterable[Trial]) -> Iterator[Measurement]:
        """See `sweeps.executors.Executor`: as many trials in flight as there are slots."""
        waiting = iter(trials)
        for trial in waiting:
            self._submit(trial)
            if len(self._running) >= self._slots:
                yield self._next()
        while self._running:
            yield self._next()

    def close(self) -> None:
        """Cancel what runs and leave Ray; an own Ray ends with this."""
        for reference in self._running:
            self._ray.cancel(reference, force=True)
        self._running.clear()
        self._ray.shutdown()
        clean_up()

    def _submit(self, trial: Trial) -> None:
        reference = self._task.remote(trial_to_dict(trial))
        self._running[reference] = (trial, time.monotonic() + _TASK_TIMEOUT_SECONDS)

    def _next(self) -> Measurement:
        """The next trial that ends; one that takes far too long is cancelled."""
        while True:
            done, _ = self._ray.wait(list(self._running), num_returns=1, timeout=1.0)
            if done:
                return self._collect(done[0])
            for reference, (trial, deadline) in list(self._running.items()):
                if time.monotonic() > deadline:
                    self._ray.cancel(reference, force=True)
                    del self._running[reference]
                    reason = f"Ray gave no answer within {_TASK_TIMEOUT_SECONDS:g} s"
                    return _failure(trial, Status.TIMED_OUT, reason)

    def _collect(self, reference: Any) -> Measurement:
        trial, _ = self._running.pop(reference)
        try:
            return measurement_from_dict(self._ray.get(reference))
        except self._ray.exceptions.RayError as error:
            text = " ".join(str(error).split())[:400]
            return _failure(trial, Status.FAILED, f"{type(error).__name__}: {text}")


def _measure_remotely(document: dict[str, Any]) -> dict[str, Any]:
    return measurement_to_dict(measure_trial(trial_from_dict(document)))


def _connected(address: str | None) -> Any:
    """Ray, connected to the cluster, or to a new one on this machine that ends with us."""
    root = str(Path(__file__).resolve().parents[1])
    os.environ.update(_SETTINGS)
    try:
        import ray
    except ImportError as error:
        raise MeasuringError(
            "Ray is not installed; install the extra 'sweep', or use --executor process"
        ) from error
    if address:
        _refuse_unreachable(address)
        options: dict[str, Any] = {"address": address}
    else:
        options = {
            "address": "local",  # else Ray joins whatever cluster it finds on the machine
            "include_dashboard": False,
            "num_cpus": 1,
            "num_gpus": 0,
            "resources": {TRIAL_RESOURCE: 1},
            "object_store_memory": _OBJECT_STORE_BYTES,
            "runtime_env": {"env_vars": {"PYTHONPATH": root}},
        }
    for remaining in reversed(range(_START_ATTEMPTS)):
        try:
            ray.init(**options, logging_level=logging.ERROR, log_to_driver=False)
            return ray
        # On a busy machine a part of Ray may miss a deadline of Ray's own (15 s for its agent),
        # and that comes as a bare Exception.
        except Exception as error:
            ray.shutdown()
            if not remaining:
                raise _no_ray(address, error) from error
    raise AssertionError("unreachable")


def _no_ray(address: str | None, error: Exception) -> MeasuringError:
    where = f"connect to Ray at '{address}'" if address else "start Ray"
    text = " ".join(str(error).split())[:200]
    hint = "check --ray-address, or use" if address else "try on a quieter machine, or with"
    return MeasuringError(f"cannot {where} ({text}); {hint} --executor process")


def _refuse_unreachable(address: str) -> None:
    """Ray itself tries for minutes, and fills the screen meanwhile."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdigit():
        return  # `auto`, and what else Ray may understand
    try:
        socket.create_connection((host, int(port)), timeout=_CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise MeasuringError(
            f"nothing answers at --ray-address {address} ({error}); start the cluster, or use "
            "--executor process"
        ) from error


def _slots(ray: Any, address: str | None) -> int:
    """How many trials the cluster takes at once: asked first, since Ray would wait for ever."""
    slots = int(ray.cluster_resources().get(TRIAL_RESOURCE, 0))
    if slots < 1:
        raise MeasuringError(
            f"the Ray cluster at '{address}' has no node with the resource '{TRIAL_RESOURCE}'; "
            f"start its nodes with: ray start --resources='{{\"{TRIAL_RESOURCE}\": 1}}' ..."
        )
    return slots


def _failure(trial: Trial, status: Status, reason: str) -> Measurement:
    return Measurement(trial=trial, status=status, limited_by=LimitedBy.NONE, reason=reason)
