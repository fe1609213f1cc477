"""The resources that a trial asks Ray for, so that no node takes more trials than it can hold.

`CPU`, `GPU`, `memory` and `accelerator_type:T4` a node finds by itself. Two are declared where it is started:
`advisor_trial`, how many trials it takes at once, and `advisor_disk:gp3`, a disk of that type that is mounted
there."""

from __future__ import annotations

import logging
import math
import os
import secrets
import socket
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from pathlib import Path
from threading import Thread
from typing import Any

from advisor.domain import Trial
from advisor.errors import MeasuringError
from advisor.sweeps.trial.orphans import deferred_signals
from advisor.sweeps.trial.ownership import OWNER_VARIABLE, own_tag
from advisor.sweeps.trial.placement import VISIBLE_GPUS, read_gpus, wanted_cpus
from advisor.sweeps.trial.placement import Node as Machine
from advisor.sweeps.trial.trial_process import stays_in_memory
from advisor.units import format_mib

TRIAL_RESOURCE = "advisor_trial"
GPU_RESOURCE = "accelerator_type:"
DISK_RESOURCE = "advisor_disk:"
# Every node has 1 of each name that begins so (ray._raylet.IMPLICIT_RESOURCE_PREFIX): the disk that
# no `--disk-path` names is read by one trial at a time, and nobody declares it.
OWN_DISK = "node:__internal_implicit_resource_advisor_disk"
# Of what a node only has to have, or trials share: it is not used up.
_PRESENCE = 0.001
_MIB = 2**20

# What a trial takes of a node, by resource, as sorted pairs: trials with the same are of one kind.
Needs = tuple[tuple[str, float], ...]
Node = Mapping[str, float]
ANY_TRIAL: Needs = ((TRIAL_RESOURCE, 1.0),)


def needs_of(trial: Trial, machine: Machine | None = None) -> Needs:
    """The resources that the trial needs of a node; on this `machine`, at most all there are.

    CPUs are whole, as they are given to trials; of a machine whose cores are known, whole cores (each counts
    as the one with the fewest threads)."""
    threads = _threads(machine) if machine else 1
    needs = {
        TRIAL_RESOURCE: 1.0,
        "CPU": float(threads * math.ceil(wanted_cpus(trial.resources.vcpus) / threads)),
        "memory": float(math.ceil(trial.resources.memory_mib) * _MIB),
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
    """On this machine: one a GPU, and one where none of them computes on a GPU."""
    on_gpu = any(trial.accelerator.is_gpu for trial in trials)
    return max(1, len(read_gpus())) if on_gpu else 1


def resources_of(machine: Machine, trials: int) -> dict[str, float]:
    """The resources that a Ray of our own declares, for so many trials at a time."""
    has = {
        TRIAL_RESOURCE: trials,
        "CPU": len(machine.cores) * _threads(machine),
        "GPU": len(machine.gpus),
        "memory": int(machine.memory_mib) * _MIB,
    }
    return {name: float(amount) for name, amount in has.items() if amount}


def task_options(needs: Needs) -> dict[str, Any]:
    """The needs as options of a Ray task."""
    left = dict(needs)
    named = {"num_cpus": "CPU", "num_gpus": "GPU", "memory": "memory"}
    options = {option: left.pop(name, 0.0) for option, name in named.items()}
    return {**options, "resources": left}


def slots(needs: Needs, nodes: Iterable[Node]) -> int:
    """The number of such trials that these nodes take at once."""
    every = ({OWN_DISK: 1.0, **node} for node in nodes)
    # Ray counts in ten thousandths.
    return sum(
        min(int(round(node.get(name, 0.0), 4) / amount + 1e-9) for name, amount in needs) for node in every
    )


def refuse(
    never: Sequence[Needs], kinds: Mapping[Needs, int], nodes: Sequence[Node], *, scales: bool
) -> None:
    """`MeasuringError` that names what is lacking, where some kinds of trials never find a node, of
    a cluster that starts nodes by itself (`scales`) or not."""
    if not never:
        return
    if not (scales or slots(ANY_TRIAL, nodes)):
        raise MeasuringError(
            f"no node of the Ray cluster has the resource '{TRIAL_RESOURCE}'",
            hint=f"start its nodes with: ray start --resources='{{\"{TRIAL_RESOURCE}\": 1}}' ...",
        )
    count, others = sum(kinds[needs] for needs in never), len(never) - 1
    started = " that is there or that the autoscaler would start" if scales else ""
    also = f" (and {others} other kinds of trials find no node)" if others else ""
    why = describe_needs(never[0], nodes)
    raise MeasuringError(f"{count} of {sum(kinds.values())} trials can run on no node{started}: {why}{also}")


def describe_needs(needs: Needs, nodes: Sequence[Node]) -> str:
    """The needs that no node meets, the resources that exist instead, and the way out."""
    wanted, usable = dict(needs), [node for node in nodes if node.get(TRIAL_RESOURCE, 0) >= 1]
    for prefix, what, way_out in (
        (GPU_RESOURCE, "the GPU", "start such a node, or leave it out of --accelerator"),
        (DISK_RESOURCE, "the disk", "start a node with that resource, or leave the disk out"),
    ):
        for name in (key for key in wanted if key.startswith(prefix)):
            if not any(name in node for node in usable):
                there = ", ".join(_named(prefix, usable)) or "none"
                return f"no node has {what} {name.removeprefix(prefix)} (there: {there}); {way_out}"
    if wanted.get("GPU") and not any(node.get("GPU", 0) >= 1 for node in usable):
        return "no node has a GPU; start one that has, or use --accelerator emulated:T4"
    for name in ("GPU", "CPU", "memory"):
        most = max((node.get(name, 0.0) for node in usable), default=0.0)
        if (needed := wanted.get(name, 0.0)) > most:
            return (
                f"they need {_amount(name, needed)}, and the largest node has {_amount(name, most)}; ask for "
                "less, or start a larger node"
            )
    whole = [f"{name} {amount:g}" for name, amount in needs if 1 <= amount < _MIB]
    present = [name for name, amount in needs if amount == _PRESENCE]
    return f"no one node has all of {', '.join([*whole, *present])}; start such a node"


def _amount(name: str, amount: float) -> str:
    return f"{format_mib(amount / _MIB)} of memory" if name == "memory" else f"{amount:g} {name}s"


def refuse_ambiguous(trials: Iterable[Trial], nodes: Sequence[Node]) -> None:
    """`cuda` alone would be measured on whichever GPU is free."""
    gpus = _named(GPU_RESOURCE, nodes)
    if len(gpus) > 1 and any(trial.accelerator.is_gpu and not trial.accelerator.gpu for trial in trials):
        requested = ",".join(f"cuda:{name}" for name in gpus)
        raise MeasuringError(
            "the cluster has several kinds of GPUs", hint=f"say which ones: --accelerator {requested}"
        )


def _threads(machine: Machine) -> int:
    return min(len(core.cpus) for core in machine.cores)


def _named(prefix: str, nodes: Iterable[Node]) -> list[str]:
    return sorted({key.removeprefix(prefix) for node in nodes for key in node if prefix in key})


_NODES_CACHED_SECONDS = 5.0
_NODES_WAIT_SECONDS = 1.0


class Nodes:
    """The resources of the nodes that are `alive`, at most some seconds old, and their slots by needs.

    Asked for in a thread: the question hangs while the head is out of reach, and what has ended is collected
    meanwhile, before Ray ends this process."""

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self._asked: Future[list[Node]] | None = None
        self._expires_at = 0.0
        self.alive: list[Node] = []
        self.refresh(patience_seconds=None)

    def refresh(self, patience_seconds: float | None = _NODES_WAIT_SECONDS) -> None:
        """Ask anew where the list is old; it stays where the head does not answer in time."""
        if self._asked is None and time.monotonic() > self._expires_at:
            self._asked = Future()
            Thread(target=self._ask, args=(self._asked,), daemon=True).start()
        if self._asked and wait([self._asked], patience_seconds).done:
            answer, self._asked = self._asked, None
            self.alive, self._slots = answer.result(), dict[Needs, int]()
            self._expires_at = time.monotonic() + _NODES_CACHED_SECONDS

    def expire(self) -> None:
        """A node has gone."""
        self._expires_at = 0.0

    def slots_for(self, needs: Needs) -> int:
        """The number of trials with these needs that the nodes take at once."""
        if needs not in self._slots:
            self._slots[needs] = slots(needs, self.alive)
        return self._slots[needs]

    def _ask(self, answer: Future[list[Node]]) -> None:
        try:
            answer.set_result([node["Resources"] for node in self._ray.nodes() if node["Alive"]])
        except Exception as error:
            answer.set_exception(error)


# It looks every 5 s; one that says nothing for so long has to be waited for.
_ANSWER_SECONDS = 60.0
_LOOK_SECONDS = 0.5


def has_autoscaler(ray: Any) -> bool:
    """Whether the cluster starts and ends nodes by itself. Version 1 of the autoscaler
    (RAY_UP_enable_autoscaler_v2=0) says nothing of what it cannot start, and counts as none."""
    from ray.autoscaler.v2.utils import is_autoscaler_v2

    return bool(is_autoscaler_v2(fetch_from_server=True, gcs_client=_head(ray)))


def never_started(ray: Any, kinds: Iterable[Needs]) -> list[Needs]:
    """The kinds of trials that the autoscaler has no node type for.

    It is asked about the largest ones first: what takes those takes the smaller ones. (Asked about many at
    once it would refuse what its types have no room for at the same time.)"""
    never: list[Needs] = []
    left = set(kinds)
    while left:
        largest = [needs for needs in left if not any(_exceeds(larger, needs) for larger in left)]
        refused = _refused(ray, largest)
        never += refused
        given = [needs for needs in largest if needs not in refused]
        left -= set(largest)
        left = {needs for needs in left if not any(_exceeds(largest_needs, needs) for largest_needs in given)}
    return never


def _exceeds(needs: Needs, other: Needs) -> bool:
    has = dict(needs)
    return needs != other and all(has.get(name, 0.0) >= amount for name, amount in other)


def _refused(ray: Any, kinds: Sequence[Needs]) -> list[Needs]:
    """Those that it calls infeasible: each is submitted once, as demand, and withdrawn then."""
    ask = ray.remote(max_retries=0)(lambda: None)
    answers = [ask.options(**task_options(needs)).remote() for needs in kinds]
    try:
        return _infeasible(_head(ray), kinds)
    finally:
        for reference in answers:
            ray.cancel(reference, force=True)


def _head(ray: Any) -> Any:
    """The head's record of demand, and of the autoscaler's answer to it."""
    from ray._raylet import GcsClient  # type: ignore[attr-defined]

    return GcsClient(ray.get_runtime_context().gcs_address)


def _infeasible(head: Any, kinds: Sequence[Needs]) -> list[Needs]:
    """Those of the kinds that the autoscaler finds no node for at all, as soon as it has seen them all."""
    from ray.core.generated import autoscaler_pb2

    until, seen_at = time.monotonic() + _ANSWER_SECONDS, None
    shapes = {needs: _shape(needs) for needs in kinds}
    while time.monotonic() < until:
        reply = autoscaler_pb2.GetClusterStatusReply()  # type: ignore[attr-defined]
        reply.ParseFromString(head.get_cluster_status())
        demand, state = reply.cluster_resource_state, reply.autoscaling_state
        waiting: Counter[frozenset[tuple[str, float]]] = Counter()
        for request in demand.pending_resource_requests:
            waiting[_shape(request.request.resources_bundle.items())] += request.count
        if seen_at is None and waiting.keys() >= set(shapes.values()):
            seen_at = demand.cluster_resource_state_version
        if seen_at is not None and state.last_seen_cluster_resource_state_version >= seen_at:
            bundles = (request.resources_bundle.items() for request in state.infeasible_resource_requests)
            refused = Counter(map(_shape, bundles))
            return [needs for needs, shape in shapes.items() if 0 < waiting[shape] <= refused[shape]]
        time.sleep(_LOOK_SECONDS)
    return []


def _shape(amounts: Iterable[tuple[str, float]]) -> frozenset[tuple[str, float]]:
    """Ray counts in ten thousandths, and leaves out what is 0."""
    return frozenset((name, round(amount, 4)) for name, amount in amounts if amount)


_CONNECT_SECONDS = 5.0
_START_ATTEMPTS = 3
_OBJECT_STORE_BYTES = 80 * 2**20  # measurements are small; Ray's default is 30 % of memory
_SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # Unlimited by default; and a trial beyond its memory is a result, not a reason to repeat.
    "RAY_task_oom_retries": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    # A worker goes on with the next trial of the same needs for so long, without being placed anew,
    # which takes the nodes 20 ms of CPU time (Ray's default is half a second).
    "RAY_worker_lease_timeout_milliseconds": "10000",
}
_SETTINGS_OF_OUR_OWN = {
    # Nobody else's, so on loopback: Ray asks this on Linux too, once, when it is imported.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_prestart_worker_first_driver": "0",  # else a process for each CPU
}


def connected(address: str | None, has: Mapping[str, float] | None = None, gpus: Sequence[str] = ()) -> Any:
    """Ray, connected to the cluster, or to a new one on this machine that ends with us, declares
    what the machine has for trials and hands out these GPUs (by UUID)."""
    os.environ.update(_SETTINGS)
    if not address:
        os.environ.update(_SETTINGS_OF_OUR_OWN)
        # Else Ray leaves one in the home, and clusters started there later ask for it.
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
    options = {"address": address} if address else _options_of_our_own(has or {})
    for remaining in reversed(range(_START_ATTEMPTS)):
        try:
            # Above errors: the loss of a node is reported by us, and not with Ray's state dump.
            with deferred_signals():
                ray.init(**options, logging_level=logging.CRITICAL, log_to_driver=False)
            return ray
        except KeyboardInterrupt:
            ray.shutdown()
            raise
        # On a busy machine a part of Ray may miss a deadline of Ray's own (15 s for its agent),
        # and that comes as a bare Exception.
        except Exception as error:
            ray.shutdown()
            if not remaining:
                raise _no_ray(address, error) from error
    raise AssertionError("unreachable")


def _options_of_our_own(has: Mapping[str, float]) -> dict[str, Any]:
    own = task_options(tuple(has.items()))
    variables = {"PYTHONPATH": str(Path(__file__).parents[4]), OWNER_VARIABLE: str(own_tag())}
    return {
        "address": "local",  # else Ray joins a cluster that happens to run here, or RAY_ADDRESS
        "include_dashboard": False,
        "dashboard_host": "127.0.0.1",  # were it ever switched on
        "_memory": own.pop("memory"),
        **own,
        "object_store_memory": _OBJECT_STORE_BYTES,
        "runtime_env": {"env_vars": variables},
    }


def _no_ray(address: str | None, error: Exception) -> MeasuringError:
    where = f"connect to Ray at '{address}'" if address else "start Ray"
    text = " ".join(str(error).split())[:200]
    hint = "try on a quieter machine, or with"
    if address:
        hint = "check --ray-address, or use"
        if not os.environ.get("RAY_AUTH_MODE"):
            # Ray 2.60's error does not say that the cluster asks for a token; stderr does.
            hint = "set RAY_AUTH_MODE=token if InvalidAuthToken stands above, " + hint
    return MeasuringError(f"cannot {where} ({text})", hint=f"{hint} --executor process")


def _refuse_unreachable(address: str) -> None:
    """Ray itself tries for minutes, and fills the screen meanwhile."""
    if address.startswith("ray://"):
        raise MeasuringError(
            f"--ray-address {address}: Ray Client does not report when a trial begins",
            hint="stand on a node of the cluster and give HOST:6379, or auto",
        )
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit():
        return  # `auto`, and what else Ray may understand
    try:
        socket.create_connection((host, int(port)), timeout=_CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise MeasuringError(
            f"nothing answers at --ray-address {address} ({error})",
            hint="start the cluster, or use --executor process",
        ) from error
