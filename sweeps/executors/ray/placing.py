"""The resources that a trial asks Ray for, so that no node takes more trials than it has CPUs, GPUs,
memory and disk, and the autoscaler sees the queue.

`CPU`, `GPU`, `memory` and `accelerator_type:T4` a node finds by itself. Two are declared where it
is started: `advisor_trial`, how many trials it takes at once, and `advisor_disk:gp3`, a disk of
that type that is mounted there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

from advisor.domain import Trial
from advisor.errors import AdvisorError, MeasuringError
from advisor.messages import Message
from advisor.sweeps.datasets.making import default_place, default_text_place, ensure_dataset, ensure_text
from advisor.sweeps.datasets.remote import is_address
from advisor.sweeps.events import collected, emit, this_node
from advisor.sweeps.executors.process import Measure, data_at_hand, failure
from advisor.sweeps.formats.serialization import measurement_to_dict, trial_from_dict
from advisor.sweeps.machine.size import machine_size
from advisor.sweeps.trial.node import Node as Machine
from advisor.sweeps.trial.node import Placement, read_gpus, wanted_cpus
from advisor.sweeps.trial.orphan_removal import clean_up
from advisor.sweeps.trial.trial_process import measure_trial, run_attempt, stays_in_memory, trial_place
from advisor.units import format_mib

Document = dict[str, Any]
NODE, EVENTS = "node", "events"  # what comes beside a measurement
# Those that a trial waits for have deadlines of their own: longer it waits for what hangs.
_PATIENCE_SECONDS = 24 * 3600.0


def measuring_task(
    measure: Measure | None, *, on_cluster: bool
) -> Callable[[Document, bool], Iterator[Document]]:
    """A function of a trial (and of whether others run beside it) that yields the node, as soon as
    it has the trial's data and room for it, and then the measurement, each with the events until
    then. Without a `measure` it measures the trial on CPUs and a GPU of its own.

    A node of a cluster is prepared first: what a killed trial left there is removed, and data that
    sweeps make themselves are made. None of that counts for the trial's deadline, which begins
    with the first answer.
    """

    def run(document: Document, side_by_side: bool) -> Iterator[Document]:
        trial = trial_from_dict(document)
        with ExitStack() as block:
            with collected() as events:
                emit("placed", trial_id=trial.trial_id)
                try:
                    if on_cluster:
                        _clean_node()
                        _make_data(trial)
                    data = block.enter_context(data_at_hand(trial))
                    one_run = measure or block.enter_context(
                        _place_taken(data.here, side_by_side=side_by_side)
                    )
                    row = None
                except AdvisorError as error:
                    row = failure(trial, str(error))
            yield {NODE: this_node(), EVENTS: events}
            with collected() as events:
                row = row or data.measured(one_run)
        yield {**measurement_to_dict(row), EVENTS: events}

    return run


@contextmanager
def _place_taken(trial: Trial, *, side_by_side: bool) -> Iterator[Measure]:
    """Reserves CPUs, memory and a GPU for the trial for the length of the block. Ray may start it too
    early: it counts no whole cores, and of a node only declared resources."""
    _refuse_too_large(trial)
    with trial_place(trial, side_by_side, patience_seconds=_PATIENCE_SECONDS) as placement:
        attempt = partial(run_attempt, side_by_side=side_by_side, taking=_taken(placement))
        yield partial(measure_trial, attempt=attempt)


def _taken(placement: Placement) -> Callable[..., AbstractContextManager[Placement]]:
    return lambda *_, **__: nullcontext(placement)


@cache
def _clean_node() -> None:
    """Once in each process of Ray: a trial that is killed takes its process with it, and the one
    that follows cleans. (A look through all groups takes tens of milliseconds.)"""
    with suppress(OSError):  # others that clean the same machine now were faster
        clean_up()


def _make_data(trial: Trial) -> None:
    """Makes the data set, identical on every node: the pictures and the text come from a fixed seed."""
    path, samples = Path(trial.dataset_path), trial.workload.dataset.samples
    if not trial.dataset_path or is_address(trial.dataset_path) or path.exists():
        return
    if path.name == default_place(samples).name:
        ensure_dataset(samples, path)
    elif path.name == default_text_place().name:
        ensure_text(path)


def _refuse_too_large(trial: Trial) -> None:
    """`MeasuringError` where this node (or its container) cannot hold the trial, whatever it has
    declared to Ray."""
    resources, size = trial.resources, machine_size()
    if resources.vcpus > size.vcpus:
        raise MeasuringError(
            "{vcpus:g} vCPUs asked for, but node {node} has {has:g}",
            vcpus=resources.vcpus,
            node=this_node(),
            has=size.vcpus,
        )
    if resources.memory_mib > size.memory_mib:
        raise MeasuringError(
            "{memory:mib} of memory asked for, but node {node} has {has:mib}",
            memory=resources.memory_mib,
            node=this_node(),
            has=size.memory_mib,
            hint="ask for less, or start a larger node",
        )


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
    for name, text in (("GPU", _gpus), ("CPU", _cpus), ("memory", _memory)):
        most = max((node.get(name, 0.0) for node in usable), default=0.0)
        if wanted.get(name, 0.0) > most:
            return (
                f"they need {text(wanted[name])}, and the largest node has {text(most)}; ask for "
                "less, or start a larger node"
            )
    return f"no one node has all of {_listed(needs)}; start such a node"


def refuse_ambiguous(trials: Iterable[Trial], nodes: Sequence[Node]) -> None:
    """`cuda` alone would be measured on whichever GPU is free."""
    gpus = _named(GPU_RESOURCE, nodes)
    if len(gpus) > 1 and any(trial.accelerator.is_gpu and not trial.accelerator.gpu for trial in trials):
        requested = ",".join(f"cuda:{name}" for name in gpus)
        raise MeasuringError(
            "the cluster has several kinds of GPUs",
            hint=Message("say which ones: --accelerator {requested}", requested=requested),
        )


def _gpus(count: float) -> str:
    return f"{count:g} GPUs"


def _cpus(count: float) -> str:
    return f"{count:g} CPUs"


def _memory(size_bytes: float) -> str:
    return f"{format_mib(size_bytes / _MIB)} of memory"


def _threads(machine: Machine) -> int:
    return min(len(core.cpus) for core in machine.cores)


def _slots_of_node(needs: Needs, node: Node) -> int:
    # Ray counts in ten thousandths.
    has = {OWN_DISK: 1.0, **node}
    return min(int(round(has.get(name, 0.0), 4) / amount + 1e-9) for name, amount in needs)


def _listed(needs: Needs) -> str:
    shown = [f"{name} {amount:g}" for name, amount in needs if 1 <= amount < _MIB]
    return ", ".join([*shown, *(name for name, amount in needs if amount == _PRESENCE)])


def _named(prefix: str, nodes: Iterable[Node]) -> list[str]:
    return sorted({key.removeprefix(prefix) for node in nodes for key in node if prefix in key})
