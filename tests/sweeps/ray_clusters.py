"""Clusters of several emulated nodes on this machine, and trials that measure nothing."""

from __future__ import annotations

import json
import logging
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import psutil
from msgspec.structs import replace

from advisor.domain import ON_CPU, Measurement, Trial
from advisor.sweeps.trial.placement import Core, placed
from advisor.sweeps.trial.placement import Node as Machine
from tests.rows import table
from tests.sweeps.builders import measurement, resources, trial

ROOT = Path(__file__).resolve().parents[2]
_STORE_BYTES = 80 * 2**20


@contextmanager
def cluster_of(*nodes: Mapping[str, float]) -> Iterator[Any]:
    """A Ray cluster with a head that takes no trial, and these nodes (their own resources)."""
    os.environ.update({"RAY_USAGE_STATS_ENABLED": "0", "PYTHONPATH": str(ROOT)})
    cluster = _started_cluster(nodes)
    try:
        yield cluster
    finally:
        cluster.shutdown()


def _started_cluster(nodes, attempts=3):
    from ray.cluster_utils import Cluster

    logging.getLogger("ray").setLevel(logging.CRITICAL)
    cluster = Cluster()
    try:
        cluster.add_node(
            num_cpus=0, include_dashboard=False, include_log_monitor=False, object_store_memory=_STORE_BYTES
        )
        for node in nodes:
            add_node(cluster, **node)
    except Exception:  # Ray itself gives a node 30 s
        cluster.shutdown()
        if attempts == 1:
            raise
        return _started_cluster(nodes, attempts - 1)
    return cluster


def add_node(cluster, *, cpus=2, gpu="", disk="", trials=1, memory_gib=16):
    """One more node that takes so many trials at a time, each on a GPU where it has any."""
    own = {"advisor_trial": trials}
    own |= {f"accelerator_type:{gpu}": 1} if gpu else {}
    own |= {f"advisor_disk:{disk}": 1} if disk else {}
    return cluster.add_node(
        num_cpus=cpus,
        num_gpus=trials if gpu else 0,
        resources=own,
        memory=int(memory_gib * 2**30),
        object_store_memory=_STORE_BYTES,
    )


# Of Ray's provider for several nodes on one machine.
_HEAD_ID, FIRST_NODE = "f" * 51 + "00000", "f" * 51 + "00001"


# A Ray of its own, which another test may have started in this process, keeps to loopback.
_AS_A_CLUSTER = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "1"}


@contextmanager
def scaled_cluster_of(folder: Path, **kinds: Mapping[str, Any]) -> Iterator[str]:
    """The address of a cluster of a head that takes no trial; its autoscaler starts and ends nodes
    of these types. (`ray.cluster_utils.AutoscalingCluster` lacks a file of Ray's wheel, and ends
    every Ray of the machine.)"""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    # As its nodes find it; a Ray that this process is connected to may have another one.
    from ray._private.services import node_ip_address_from_perspective

    address = f"{node_ip_address_from_perspective(None)}:{port}"
    module = "tests.sweeps.ray_provider.EmulatedNodes"
    head = {"resources": {"CPU": 0}, "node_config": {}, "max_workers": 0}
    file = folder / "cluster.json"
    provider = {"type": "external", "module": module, "launch_multiple": True}
    types = {name: {"node_config": {}, "min_workers": 0, **kind} for name, kind in kinds.items()}
    config = {
        **table("sweeps")["cluster"],
        "provider": provider | {"head_node_id": _HEAD_ID, "gcs_address": address},
        "available_node_types": {"ray.head.default": head, **types},
    }
    file.write_text(json.dumps(config))
    words = "--head --num-cpus=0 --num-gpus=0 --include-dashboard=false"
    options = (*words.split(), f"--port={port}", f"--autoscaling-config={file}")
    settings = {
        "AUTOSCALER_UPDATE_INTERVAL_S": "1",
        "RAY_FAKE_CLUSTER": "1",
        "PYTHONPATH": str(ROOT),
        "RAY_enable_autoscaler_v2": "1",
        "RAY_CLOUD_INSTANCE_ID": _HEAD_ID,
        "RAY_OVERRIDE_NODE_ID_FOR_TESTING": _HEAD_ID,
        "RAY_NODE_TYPE_NAME": "ray.head.default",
    }
    with started_node(folder, *options, **settings):
        yield address


@contextmanager
def started_node(folder, *options, inside=(), **settings):
    """`ray start --block` with these options, up when the block begins; all of it has ended after
    the block. What it says is in `folder`, which other nodes of the cluster may share; `inside`
    stands before the command."""
    command = [
        *inside,
        str(Path(sys.executable).parent / "ray"),
        "start",
        "--block",
        *options,
        f"--temp-dir={folder}",
        f"--object-store-memory={_STORE_BYTES}",
        "--include-log-monitor=false",  # a process a node that nobody reads
        "--dashboard-agent-listen-port=0",
    ]
    tag = {"RAY_TEST_NODE": secrets.token_hex(8)}
    said = folder / f"said-{tag['RAY_TEST_NODE']}"
    env = {**os.environ, **_AS_A_CLUSTER, "RAY_USAGE_STATS_ENABLED": "0", **settings, **tag}
    try:
        for left in reversed(range(3)):  # Ray itself gives a node 30 s
            with said.open("w") as out:
                running = subprocess.Popen(command, env=env, stdout=out, stderr=subprocess.STDOUT)
            while running.poll() is None and "Ray runtime started" not in said.read_text():
                time.sleep(0.2)
            if running.poll() is None:
                break
            assert left, said.read_text()
            _end_all(lambda entry: tag.items() <= entry.environ().items())
        yield running
    finally:
        running.terminate()
        running.wait()
        _end_all(lambda entry: tag.items() <= entry.environ().items())
        if "--head" in options:  # nodes that its autoscaler started outlive it by a minute
            _end_all(lambda entry: any(str(folder) in word for word in entry.cmdline()))


def _end_all(is_ours: Callable[[psutil.Process], bool]) -> None:
    for entry in psutil.process_iter():
        with suppress(psutil.Error):
            if is_ours(entry):
                # A node's agents hide their words and environment, and outlive it by minutes.
                for process in (*entry.children(), entry):
                    process.kill()


_DRIVER = """
import sys
from contextlib import closing
from advisor.sweeps.run.ray.executor import RayExecutor
from advisor.sweeps.run.runner import run_sweep
from advisor.store.measurements import SqlStore
from tests.sweeps import ray_clusters

url, address, kind, measure, count, *accelerators = sys.argv[1:]
trials = getattr(ray_clusters, kind)(int(count), *accelerators)
with closing(SqlStore(url)) as store:
    executor = RayExecutor(address, measure=getattr(ray_clusters, measure))
    with closing(executor):
        executor.refuse_impossible(trials)
        run_sweep(trials, executor, store, poll_seconds=0.1)
"""


def driver(
    url, address, count, *accelerators, kind="numbered", measure="measured_slowly", inside=(), **settings
):
    """A sweep over trials that a function of this module makes and another one measures, in a
    process of its own; `inside` stands before its command."""
    command = [*inside, sys.executable, "-c", _DRIVER, url, address, kind, measure, str(count)]
    env = {**os.environ, **_AS_A_CLUSTER, "PYTHONPATH": str(ROOT), **settings}
    return subprocess.Popen([*command, *accelerators], cwd=ROOT, env=env)


def numbered(count: int, *accelerators: str, first: int = 0) -> list[Trial]:
    """Trials that differ in nothing that matters, of each accelerator in turn."""
    kinds = accelerators or ("cpu",)
    return [
        trial(accelerator=kinds[n % len(kinds)], resources=resources(memory_mib=64.0 + n))
        for n in range(first, first + count)
    ]


def of_a_fleet(count: int) -> list[Trial]:
    """Trials of two GPUs in turn; each tenth needs no GPU, and 4 GiB."""
    return [
        replace(entry, accelerator=ON_CPU, resources=resources(memory_mib=4096.0 + n))
        if n % 10 == 0
        else entry
        for n, entry in enumerate(numbered(count, "cuda:T4", "cuda:L4"))
    ]


def measured_at_once(entry: Trial) -> Measurement:
    """A row that tells where it comes from, and when."""
    return _row(entry)


def measured_slowly(entry: Trial) -> Measurement:
    """The same after a second."""
    began = time.time()
    time.sleep(1.0)
    return _row(entry, began=began)


def measured_on_a_core(entry: Trial) -> Measurement:
    """The same for half a second, on a core that it has taken of the four of its node."""
    import ray

    context = ray.get_runtime_context()
    folder = Path(ray._private.worker._global_node.get_session_dir_path(), context.get_node_id())
    folder.mkdir(exist_ok=True)
    cores = Machine(tuple(Core(n, (n,), 0) for n in range(4)))
    with placed(entry.resources.vcpus, node=cores, folder=folder) as placement:
        began = time.time()
        time.sleep(0.5)
        ended = time.time()
    return _row(entry, began=began, released=ended, cpus=placement.cpus, memory=_node_memory())


@cache
def _node_memory() -> float:
    import ray

    here = ray.get_runtime_context().get_node_id()
    resources = next(n["Resources"] for n in ray.nodes() if n["NodeID"] == here)
    # A node that Ray calls dead, because a busy machine let it answer late, has no resources any more.
    return float(resources.get("memory", 2**60))


def measured_in_sight(entry: Trial) -> Measurement:
    """The same, and a file in the trial's folder names the node as soon as it has begun."""
    import ray

    Path(entry.dataset_path, ray.get_runtime_context().get_node_id()).touch()
    return measured_slowly(entry)


def measured_never(entry: Trial) -> Measurement:
    """A trial that hangs, among others that do not: the one with 64 MiB."""
    if entry.resources.memory_mib == 64.0:
        time.sleep(600)
    return _row(entry)


def killed(entry: Trial) -> Measurement:
    """The process around the trial with 64 MiB dies, each time; others come back."""
    if entry.resources.memory_mib == 64.0:
        os.kill(os.getpid(), 9)
    return _row(entry)


def raising(_node: Trial) -> Measurement:
    """A fault of our own around the trial."""
    raise RuntimeError("no such thing")


def _row(entry: Trial, **more: Any) -> Measurement:
    import ray

    context = ray.get_runtime_context()
    facts = {
        "node": context.get_node_id(),
        "assigned": context.get_assigned_resources(),
        "gpu_seen": os.environ.get("CUDA_VISIBLE_DEVICES", ""),
        "ended": time.time(),
        **more,
    }
    return measurement(trial=entry, environment=facts)
