"""The resources that a trial asks Ray for, so that no node takes more trials than it has CPUs, GPUs,
memory and disk, and the autoscaler sees the queue.

`CPU`, `GPU`, `memory` and `accelerator_type:T4` a node finds by itself. Two are declared where it
is started: `advisor_trial`, how many trials it takes at once, and `advisor_disk:gp3`, a disk of
that type that is mounted there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from advisor.domain import Trial
from advisor.errors import MeasuringError
from advisor.messages import Message
from advisor.sweeps.trial.node import Node as Machine
from advisor.sweeps.trial.node import read_gpus, wanted_cpus
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


def needs_of(trial: Trial, machine: Machine | None = None) -> Needs:
    """The resources that the trial needs of a node; on this `machine`, at most all there are.

    CPUs are whole, as they are given to trials; of a machine whose cores are known, whole cores
    (each counts as the one with the fewest threads).
    """
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
    return sum(_slots_of_node(needs, node) for node in nodes)


def all_slots(nodes: Iterable[Node]) -> int:
    """The number of trials of any kind that these nodes take at once."""
    return sum(int(node.get(TRIAL_RESOURCE, 0)) for node in nodes)


def refuse(
    never: Sequence[Needs], kinds: Mapping[Needs, int], nodes: Sequence[Node], *, scales: bool
) -> None:
    """`MeasuringError` that names what is lacking, where some kinds of trials never find a node, of
    a cluster that starts nodes by itself (`scales`) or not."""
    if not never:
        return
    if not (scales or all_slots(nodes)):
        raise MeasuringError(
            "no node of the Ray cluster has the resource '{trial_resource}'",
            hint=Message(
                "start its nodes with: ray start --resources='{{\"{trial_resource}\": 1}}' ...",
                trial_resource=TRIAL_RESOURCE,
            ),
            trial_resource=TRIAL_RESOURCE,
        )
    others = len(never) - 1
    raise MeasuringError(
        "{count} of {total} trials can run on no node{started}: {why}{also}",
        started=" that is there or that the autoscaler would start" if scales else "",
        count=sum(kinds[needs] for needs in never),
        total=sum(kinds.values()),
        why=describe_needs(never[0], nodes),
        also=f" (and {others} other kinds of trials find no node)" if others else "",
    )


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
            "the cluster has several kinds of GPUs",
            hint=Message("say which ones: --accelerator {requested}", requested=requested),
        )


def _threads(machine: Machine) -> int:
    return min(len(core.cpus) for core in machine.cores)


def _slots_of_node(needs: Needs, node: Node) -> int:
    # Ray counts in ten thousandths.
    has = {OWN_DISK: 1.0, **node}
    return min(int(round(has.get(name, 0.0), 4) / amount + 1e-9) for name, amount in needs)


def _named(prefix: str, nodes: Iterable[Node]) -> list[str]:
    return sorted({key.removeprefix(prefix) for node in nodes for key in node if prefix in key})
