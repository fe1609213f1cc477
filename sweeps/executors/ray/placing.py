"""Which nodes of a Ray cluster take which trial; decided before Ray is asked, since Ray would
wait for ever for a node that there is none of.

A node declares with resources of Ray what it has: `advisor_trial` how many trials it takes at once,
`GPU` and `accelerator_type:T4` its GPUs (Ray finds these by itself), `advisor_disk:gp3` a disk that
is mounted there. A trial takes a whole `advisor_trial` and, where it computes on one, a whole GPU.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from advisor.domain import ON_ANY_GPU, Trial
from advisor.errors import MeasuringError
from advisor.messages import Message
from sweeps.trial.placement.decision import wanted_cpus
from sweeps.trial.placement.node import Node as Machine
from sweeps.trial.placement.node import read_gpus
from sweeps.trial.trial_process import stays_in_memory

TRIAL_RESOURCE = "advisor_trial"
GPU_RESOURCE = "accelerator_type:"
DISK_RESOURCE = "advisor_disk:"
# Of a Ray of our own: what `sweeps.trial.placement` gives one trial at a time.
_CORES, _OWN_GPU, _MEMORY = "advisor_core", "advisor_gpu", "advisor_memory_mib"
_DISK = "advisor_disk"
# Of what a node only has to have, or trials share: it is not used up.
_PRESENCE = 0.001

# What a trial takes of a node, by resource, as sorted pairs: trials with the same are placed alike.
Needs = tuple[tuple[str, float], ...]
Node = Mapping[str, float]


def needs_of(trial: Trial) -> Needs:
    """What a node of a cluster must have for the trial."""
    needs = {TRIAL_RESOURCE: 1.0, "CPU": trial.resources.vcpus}
    if trial.accelerator.is_gpu:
        needs["GPU"] = 1.0
        if trial.accelerator.gpu:
            needs[f"{GPU_RESOURCE}{trial.accelerator.gpu}"] = _PRESENCE
    if trial.on_mounted_disk:
        needs[f"{DISK_RESOURCE}{trial.resources.disk.type}"] = _PRESENCE
    return tuple(sorted(needs.items()))


def slots_of_own_machine(trials: Iterable[Trial]) -> int:
    """Trials at a time: one a GPU, and one where none of them computes on a GPU."""
    on_gpu = any(trial.accelerator.is_gpu for trial in trials)
    return max(1, len(read_gpus())) if on_gpu else 1


def resources_of_own_machine(machine: Machine, slots: int) -> dict[str, float]:
    """What a Ray of our own declares; Ray takes whole numbers only."""
    has = {
        TRIAL_RESOURCE: slots,
        _CORES: len(machine.cores),
        _OWN_GPU: len(machine.gpus),
        _MEMORY: int(machine.memory_mib),
        _DISK: 1,
    }
    return {name: float(amount) for name, amount in has.items() if amount}


def needs_of_own_machine(trial: Trial, machine: Machine) -> Needs:
    """What it takes of `resources_of_own_machine`, at most all there is: trials that Ray starts
    together are placed together, and none waits inside its task until it fails.

    A core counts as the one with the fewest threads, and all disks as one.
    """
    threads = min(len(core.cpus) for core in machine.cores)
    needs = {
        TRIAL_RESOURCE: 1.0,
        _CORES: math.ceil(wanted_cpus(trial.resources.vcpus) / threads),
        _MEMORY: math.ceil(trial.resources.memory_mib),
    }
    if trial.accelerator.is_gpu:
        needs[_OWN_GPU] = 1.0
    if trial.dataset_path:
        needs[_DISK] = _PRESENCE if stays_in_memory(trial) else 1.0
    has = resources_of_own_machine(machine, slots=1)
    return tuple(
        sorted((name, min(amount, has[name])) for name, amount in needs.items() if name in has)
    )


def task_options(needs: Needs) -> dict[str, Any]:
    """The needs as options of a Ray task."""
    left = dict(needs)
    cpus, gpus = left.pop("CPU", 0.0), left.pop("GPU", 0.0)
    return {"num_cpus": cpus, "num_gpus": gpus, "resources": left}


def slots(needs: Needs, nodes: Iterable[Node]) -> int:
    """How many such trials these nodes take at once."""
    return sum(_slots_of_node(needs, node) for node in nodes)


class FreeCapacity:
    """What the nodes have left beside the trials that they run.

    Which node has which of them is Ray's to know: the most demanding ones are thought of first,
    each on the node with the least to offer others.
    """

    def __init__(self, nodes: Iterable[Node], taken: Iterable[Needs]) -> None:
        self._left = [dict(node) for node in nodes]
        for needs in sorted(taken, key=len, reverse=True):
            self.take(needs)

    def take(self, needs: Needs) -> bool:
        """Take it, if there is room for one more such trial."""
        able = [node for node in self._left if _slots_of_node(needs, node)]
        if not able:
            return False
        chosen = min(able, key=len)
        for name, amount in needs:
            chosen[name] -= amount
        return True


def all_slots(nodes: Iterable[Node]) -> int:
    """How many trials of any kind these nodes take at once."""
    return sum(int(node.get(TRIAL_RESOURCE, 0)) for node in nodes)


def refuse_impossible(trials: Sequence[Trial], nodes: Sequence[Node]) -> None:
    """`MeasuringError` that names what is lacking, when no node takes some of the trials."""
    if not all_slots(nodes):
        raise MeasuringError(
            "no node of the Ray cluster has the resource '{trial_resource}'",
            hint=Message(
                "start its nodes with: ray start --resources='{{\"{trial_resource}\": 1}}' ...",
                trial_resource=TRIAL_RESOURCE,
            ),
            trial_resource=TRIAL_RESOURCE,
        )
    kinds = Counter(map(needs_of, trials))
    lacking = [needs for needs in kinds if not slots(needs, nodes)]
    if lacking:
        count, (first, *others) = sum(kinds[entry] for entry in lacking), lacking
        also = f" (and {len(others)} other kinds of trials find no node)" if others else ""
        raise MeasuringError(
            "{count} of {total} trials can run on no node: {why}{also}",
            count=count,
            total=len(trials),
            why=describe_needs(first, nodes),
            also=also,
        )
    _refuse_ambiguous(trials, nodes)


def describe_needs(needs: Needs, nodes: Sequence[Node]) -> str:
    """What no node has of the needs, what there is instead, and what to do."""
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
    most = max((node.get("CPU", 0.0) for node in usable), default=0.0)
    if wanted.get("CPU", 0.0) > most:
        return (
            f"they need {wanted['CPU']:g} vCPUs, and the largest node has {most:g}; ask for "
            "fewer, or start a larger node"
        )
    requested = ", ".join(f"{name} {amount:g}" for name, amount in needs if amount >= 1)
    return f"no one node has all of {requested} with its GPU and disk; start such a node"


def _slots_of_node(needs: Needs, node: Node) -> int:
    # Ray counts in ten thousandths.
    return min(int(round(node.get(name, 0.0), 4) / amount + 1e-9) for name, amount in needs)


def _named(prefix: str, nodes: Iterable[Node]) -> list[str]:
    return sorted({key.removeprefix(prefix) for node in nodes for key in node if prefix in key})


def _refuse_ambiguous(trials: Sequence[Trial], nodes: Sequence[Node]) -> None:
    """`cuda` alone would be measured on whichever GPU is free."""
    gpus = _named(GPU_RESOURCE, nodes)
    if len(gpus) > 1 and any(trial.accelerator == ON_ANY_GPU for trial in trials):
        requested = ",".join(f"cuda:{name}" for name in gpus)
        raise MeasuringError(
            "the cluster has several kinds of GPUs",
            hint=Message("say which ones: --accelerator {requested}", requested=requested),
        )
