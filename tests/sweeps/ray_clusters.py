"""Clusters of several emulated nodes on this machine, and trials that measure nothing."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from advisor.domain import Measurement, Trial
from tests.sweeps.builders import measurement, resources, trial

ROOT = Path(__file__).resolve().parents[2]
_STORE_BYTES = 80 * 2**20


@contextmanager
def cluster_of(*nodes: Mapping[str, float]) -> Iterator[Any]:
    """A Ray cluster with a head that takes no trial, and these nodes (their own resources)."""
    os.environ.update({"RAY_USAGE_STATS_ENABLED": "0", "PYTHONPATH": str(ROOT)})
    from ray.cluster_utils import Cluster

    logging.getLogger("ray").setLevel(logging.CRITICAL)
    head = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": _STORE_BYTES}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        for node in nodes:
            add_node(cluster, **node)
        yield cluster
    finally:
        cluster.shutdown()


def add_node(cluster: Any, *, cpus: float = 2, gpu: str = "", disk: str = "") -> Any:
    """One more node that takes one trial at a time."""
    own = {"advisor_trial": 1}
    own |= {f"accelerator_type:{gpu}": 1} if gpu else {}
    own |= {f"advisor_disk:{disk}": 1} if disk else {}
    return cluster.add_node(
        num_cpus=cpus, num_gpus=int(bool(gpu)), resources=own, object_store_memory=_STORE_BYTES
    )


def numbered(count: int, *accelerators: str, first: int = 0) -> list[Trial]:
    """Trials that differ in nothing that matters, of each accelerator in turn."""
    kinds = accelerators or ("cpu",)
    return [
        trial(accelerator=kinds[n % len(kinds)], resources=resources(memory_mib=64.0 + n))
        for n in range(first, first + count)
    ]


def measured_at_once(one: Trial) -> Measurement:
    """A row that tells where it comes from, and when."""
    return _row(one)


def measured_slowly(one: Trial) -> Measurement:
    """The same after a second."""
    began = time.time()
    time.sleep(1.0)
    return _row(one, began=began)


def measured_in_sight(one: Trial) -> Measurement:
    """The same, and a file in the trial's folder names the node as soon as it has begun."""
    import ray

    Path(one.dataset_path, ray.get_runtime_context().get_node_id()).touch()
    return measured_slowly(one)


def measured_never(one: Trial) -> Measurement:
    """A trial that hangs, among others that do not: the one with 64 MiB."""
    if one.resources.memory_mib == 64.0:
        time.sleep(600)
    return _row(one)


def killed(one: Trial) -> Measurement:
    """The process around the trial with 64 MiB dies, each time; others come back."""
    if one.resources.memory_mib == 64.0:
        os.kill(os.getpid(), 9)
    return _row(one)


def raising(_one: Trial) -> Measurement:
    """A fault of our own around the trial."""
    raise RuntimeError("no such thing")


def _row(one: Trial, **more: Any) -> Measurement:
    import ray

    context = ray.get_runtime_context()
    facts = {
        "node": context.get_node_id(),
        "assigned": context.get_assigned_resources(),
        "gpu_seen": os.environ.get("CUDA_VISIBLE_DEVICES", ""),
        "ended": time.time(),
        **more,
    }
    return measurement(trial=one, environment=facts)
