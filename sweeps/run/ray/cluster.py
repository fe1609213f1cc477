"""Connects to Ray, and computes the resources that a trial needs of a node, so that no node takes too many.

Ray detects `CPU`, `GPU`, `memory` and `accelerator_type:T4` of a node. Two resources are declared when a node
is started: `advisor_trial`, the number of trials that it runs at once, and `advisor_disk:gp3`, a mounted disk
of that type."""

from __future__ import annotations

import logging
import math
import os
import secrets
import socket
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from pathlib import Path
from threading import Thread
from typing import Any

from advisor.domain import MIB, Trial
from advisor.errors import MeasuringError
from advisor.messages import format_mib
from advisor.sweeps.trial.ownership import OWNER_VARIABLE, deferred_signals, own_tag
from advisor.sweeps.trial.placement import VISIBLE_GPUS, read_gpus, wanted_cpus
from advisor.sweeps.trial.placement import Node as Machine
from advisor.sweeps.trial.trial_process import stays_in_memory

TRIAL_RESOURCE = "advisor_trial"
GPU_RESOURCE = "accelerator_type:"
DISK_RESOURCE = "advisor_disk:"
# Every node has 1 of each undeclared resource with this prefix (ray._raylet.IMPLICIT_RESOURCE_PREFIX). It
# lets one trial at a time read the node's disk that no `--disk-path` names.
OWN_DISK = "node:__internal_implicit_resource_advisor_disk"
# The amount of a resource that a node only has to have, or that trials share.
_PRESENCE = 0.001

# The amounts that a trial needs of a node's resources, as sorted pairs; trials with equal needs are one kind.
Needs = tuple[tuple[str, float], ...]
Node = Mapping[str, float]
ANY_TRIAL: Needs = ((TRIAL_RESOURCE, 1.0),)


def needs_of(trial: Trial, machine: Machine | None = None) -> Needs:
    """The resources that a trial needs of a node; on a given `machine`, at most all that it has.

    Trials get whole CPUs, and on a given machine whole cores (each counted with the fewest threads that any
    core has)."""
    threads = _threads(machine) if machine else 1
    needs = {
        TRIAL_RESOURCE: 1.0,
        "CPU": float(threads * math.ceil(wanted_cpus(trial.resources.vcpus) / threads)),
        "memory": float(math.ceil(trial.resources.memory_mib) * MIB),
    }
    if trial.on_mounted_disk or trial.dataset_path:
        disk = f"{DISK_RESOURCE}{trial.resources.disk.type}" if trial.on_mounted_disk else OWN_DISK
        reads = trial.dataset_path and not stays_in_memory(trial)
        needs[disk] = 1.0 if reads else _PRESENCE
    if trial.accelerator.is_gpu:
        needs["GPU"] = float(trial.processes)
        if trial.accelerator.gpu:
            needs[f"{GPU_RESOURCE}{trial.accelerator.gpu}"] = _PRESENCE
    if machine:
        has = {OWN_DISK: 1.0, **resources_of(machine, trials=1)}
        needs = {name: min(amount, has[name]) for name, amount in needs.items() if name in has}
    return tuple(sorted(needs.items()))


def trials_at_a_time(trials: Iterable[Trial]) -> int:
    """The number of trials that this machine runs at once: one on each GPU, or one if none uses a GPU."""
    on_gpu = any(trial.accelerator.is_gpu for trial in trials)
    return max(1, len(read_gpus())) if on_gpu else 1


def resources_of(machine: Machine, trials: int) -> dict[str, float]:
    """The resources that a local Ray declares for a machine with so many trials at a time."""
    has = {
        TRIAL_RESOURCE: trials,
        "CPU": len(machine.cores) * _threads(machine),
        "GPU": len(machine.gpus),
        "memory": int(machine.memory_mib) * MIB,
    }
    return {name: float(amount) for name, amount in has.items() if amount}


def task_options(needs: Needs) -> dict[str, Any]:
    """The needs as options of a Ray task."""
    left = dict(needs)
    named = {"num_cpus": "CPU", "num_gpus": "GPU", "memory": "memory"}
    options = {option: left.pop(name, 0.0) for option, name in named.items()}
    return {**options, "resources": left}


def slots(needs: Needs, nodes: Iterable[Node]) -> int:
    """The number of trials with these needs that the nodes can run at once."""
    every = ({OWN_DISK: 1.0, **node} for node in nodes)
    # Ray counts in ten thousandths.
    return sum(
        min(int(round(node.get(name, 0.0), 4) / amount + 1e-9) for name, amount in needs) for node in every
    )


def refuse(never: Sequence[Needs], kinds: Mapping[Needs, int], nodes: Sequence[Node]) -> None:
    """Raise `MeasuringError` with the missing resources if some kinds of trials can `never` run."""
    if not never:
        return
    if not slots(ANY_TRIAL, nodes):
        raise MeasuringError(
            f"no node of the Ray cluster has the resource '{TRIAL_RESOURCE}'",
            hint=f"start its nodes with: ray start --resources='{{\"{TRIAL_RESOURCE}\": 1}}' ...",
        )
    count, others = sum(kinds[needs] for needs in never), len(never) - 1
    also = f" (and {others} other kinds of trials find no node)" if others else ""
    why = describe_needs(never[0], nodes)
    raise MeasuringError(f"{count} of {sum(kinds.values())} trials can run on no node: {why}{also}")


def describe_needs(needs: Needs, nodes: Sequence[Node]) -> str:
    """The text that says which needs no node meets, which resources exist instead, and what to do."""
    usable = [{OWN_DISK: 1.0, **node} for node in nodes if node.get(TRIAL_RESOURCE, 0) >= 1]
    for name, amount in needs:
        most = max((node.get(name, 0.0) for node in usable), default=0.0)
        if amount <= most:
            continue
        for prefix, what in ((GPU_RESOURCE, "GPU"), (DISK_RESOURCE, "disk")):
            if name.startswith(prefix):
                there = ", ".join(_names_with(prefix, usable)) or "none"
                kind = name.removeprefix(prefix)
                return f"no node has the {what} {kind} (there: {there}); start one that has, or leave it out"
        return (
            f"they need {_amount(name, amount)}, and the largest node has {_amount(name, most)}; ask for "
            "less, or start a larger node"
        )
    whole = (f"{name} {amount:g}" if amount >= 1 else name for name, amount in needs if amount < MIB)
    return f"no one node has all of {', '.join(whole)}; start such a node"


def _amount(name: str, amount: float) -> str:
    return f"{format_mib(amount / MIB)} of memory" if name == "memory" else f"{amount:g} {name}s"


def refuse_ambiguous(trials: Iterable[Trial], nodes: Sequence[Node]) -> None:
    """Raise `MeasuringError` for `cuda` without a name if the cluster has several kinds of GPUs."""
    gpus = _names_with(GPU_RESOURCE, nodes)
    if len(gpus) > 1 and any(trial.accelerator.is_gpu and not trial.accelerator.gpu for trial in trials):
        requested = ",".join(f"cuda:{name}" for name in gpus)
        raise MeasuringError(
            "the cluster has several kinds of GPUs", hint=f"say which ones: --accelerator {requested}"
        )


def _threads(machine: Machine) -> int:
    return min(len(core.cpus) for core in machine.cores)


def _names_with(prefix: str, nodes: Iterable[Node]) -> list[str]:
    return sorted({key.removeprefix(prefix) for node in nodes for key in node if prefix in key})


_NODES_CACHED_SECONDS = 5.0
_NODES_WAIT_SECONDS = 1.0


class Nodes:
    """The resources of the nodes that are `alive`, cached for seconds, and their slots by needs.

    A thread reads them, since the call hangs while Ray's head is unreachable. Meanwhile the executor can
    still collect ended trials, before Ray ends this process."""

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self._asked: Future[list[Node]] | None = None
        self._expires_at = 0.0
        self.alive: list[Node] = []
        self.refresh(patience_seconds=None)

    def refresh(self, patience_seconds: float | None = _NODES_WAIT_SECONDS) -> None:
        """Read the list again if it is old; keep it if the head does not answer in time."""
        if self._asked is None and time.monotonic() > self._expires_at:
            self._asked = Future()
            Thread(target=self._ask, args=(self._asked,), daemon=True).start()
        if self._asked and wait([self._asked], patience_seconds).done:
            answer, self._asked = self._asked, None
            self.alive, self._slots = answer.result(), dict[Needs, int]()
            self._expires_at = time.monotonic() + _NODES_CACHED_SECONDS

    def expire(self) -> None:
        """Mark the list as old, since a node was lost."""
        self._expires_at = 0.0

    def slots_for(self, needs: Needs) -> int:
        """The number of trials with these needs that the nodes can run at once."""
        if needs not in self._slots:
            self._slots[needs] = slots(needs, self.alive)
        return self._slots[needs]

    def _ask(self, answer: Future[list[Node]]) -> None:
        try:
            answer.set_result([node["Resources"] for node in self._ray.nodes() if node["Alive"]])
        except Exception as error:
            answer.set_exception(error)


def has_autoscaler(ray: Any) -> bool:
    """True if the cluster starts and ends nodes by itself. Version 1 of the autoscaler
    (RAY_UP_enable_autoscaler_v2=0) counts as none."""
    from ray._raylet import GcsClient  # type: ignore[attr-defined]
    from ray.autoscaler.v2.utils import is_autoscaler_v2

    head = GcsClient(ray.get_runtime_context().gcs_address)
    return bool(is_autoscaler_v2(fetch_from_server=True, gcs_client=head))


_CONNECT_SECONDS = 5.0
_START_ATTEMPTS = 3
_OBJECT_STORE_BYTES = 80 * 2**20  # measurements are small; Ray's default is 30 % of memory
_SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # Unlimited by default; but a trial that exceeds its memory is a result, and is not repeated.
    "RAY_task_oom_retries": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    # How long a worker waits for the next trial with the same needs, which saves the nodes 20 ms of CPU time
    # for a new placement (Ray's default is half a second).
    "RAY_worker_lease_timeout_milliseconds": "10000",
}
_LOCAL_SETTINGS = {
    # Keeps Ray on loopback; despite its name Ray reads it on Linux too, once, at import.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_prestart_worker_first_driver": "0",  # else a process for each CPU
}


def connected(address: str | None, has: Mapping[str, float] | None = None, gpus: Sequence[str] = ()) -> Any:
    """The module ray, connected to the cluster at `address`, or to a new one on this machine that declares
    the resources `has`, hands out these GPUs (by UUID), and ends with this process."""
    os.environ.update(_SETTINGS)
    if not address:
        os.environ.update(_LOCAL_SETTINGS)
        # Without it Ray writes a token into the home folder, and clusters started later require it.
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex())
        os.environ.update({VISIBLE_GPUS: ",".join(gpus)} if gpus else {})
    try:
        import ray
    except ImportError as error:
        raise MeasuringError(
            "Ray is not installed", hint="install the extra 'sweep', or use --executor process"
        ) from error
    if address:
        _refuse_unreachable(address)
    options = {"address": address} if address else _local_options(has or {})
    for remaining in reversed(range(_START_ATTEMPTS)):
        try:
            # CRITICAL hides Ray's errors: a lost node is reported by us, not with Ray's state dump.
            with deferred_signals():
                ray.init(**options, logging_level=logging.CRITICAL, log_to_driver=False)
            return ray
        except KeyboardInterrupt:
            ray.shutdown()
            raise
        # On a busy machine a part of Ray may miss an internal deadline (15 s for its agent), which raises a
        # bare Exception.
        except Exception as error:
            ray.shutdown()
            if not remaining:
                raise _no_ray(address, error) from error
    raise AssertionError("unreachable")


def _local_options(has: Mapping[str, float]) -> dict[str, Any]:
    own = task_options(tuple(has.items()))
    variables = {"PYTHONPATH": str(Path(__file__).parents[4]), OWNER_VARIABLE: str(own_tag())}
    return {
        "address": "local",  # else Ray joins a running cluster or RAY_ADDRESS
        "include_dashboard": False,
        "dashboard_host": "127.0.0.1",  # in case it is switched on
        "_memory": own.pop("memory"),
        **own,
        "object_store_memory": _OBJECT_STORE_BYTES,
        "runtime_env": {"env_vars": variables},
    }


def _no_ray(address: str | None, error: Exception) -> MeasuringError:
    where = f"connect to Ray at '{address}'" if address else "start Ray"
    hint = "try on a quieter machine, or with --executor process"
    if address:
        # Ray 2.60's error does not say that the cluster requires a token; only stderr does.
        hint = "check --ray-address; set RAY_AUTH_MODE=token if InvalidAuthToken stands above"
    return MeasuringError(f"cannot {where} ({' '.join(str(error).split())[:200]})", hint=hint)


def _refuse_unreachable(address: str) -> None:
    """Raise `MeasuringError` if nothing answers at the address, where Ray would retry for minutes."""
    if address.startswith("ray://"):
        raise MeasuringError(
            f"--ray-address {address}: Ray Client does not report when a trial begins",
            hint="stand on a node of the cluster and give HOST:6379, or auto",
        )
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit():
        return  # `auto`, or another form that Ray may know
    try:
        socket.create_connection((host, int(port)), timeout=_CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise MeasuringError(
            f"nothing answers at --ray-address {address} ({error})",
            hint="start the cluster, or use --executor process",
        ) from error
