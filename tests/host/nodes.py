"""All-reduce between emulated nodes.

Four network namespaces of this machine stand for four nodes of one rank each. A bridge joins them; `tc tbf`
holds each node's link to a rate in both directions. In each namespace runs `advisor measure --ranks 1 --nodes
4`: real gradients pass real TCP connections, at the pace of an emulated GPU. `compared` puts the measured
all-reduce beside the model's (`models.performance.scaling`)."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from advisor.models.performance.scaling import all_reduce_seconds

NODES = 4
PORT = 29500
_MINUTES = "0.5"
_TIMEOUT_SECONDS = 600.0


class NoNodes(Exception):
    """This machine makes no network namespaces with limited links."""


@contextmanager
def emulated_nodes(gbit_per_second: float, count: int = NODES) -> Iterator[list[str]]:
    """Names of network namespaces whose links to each other are held to a rate, gone on leaving.

    Node k has the address 10.77.0.k, k from 1. Nothing changes in this process's own namespace. Raises
    `NoNodes` where the kernel or the tools refuse."""
    if os.geteuid() != 0 or not (shutil.which("ip") and shutil.which("tc")):
        raise NoNodes("network namespaces need root, `ip` and `tc` (iproute2)")
    # Not as sweeps name what they mount: those remove what is left of processes that have gone.
    prefix = f"advisor-nodes-{os.getpid()}"
    switch, nodes = f"{prefix}-switch", [f"{prefix}-{number}" for number in range(1, count + 1)]
    try:
        for name in (switch, *nodes):
            _run("ip", "netns", "add", name)
            _run("ip", "-n", name, "link", "set", "lo", "up")
        _run("ip", "-n", switch, "link", "add", "bridge", "type", "bridge")
        _run("ip", "-n", switch, "link", "set", "bridge", "up")
        for number, node in enumerate(nodes, 1):
            _join(switch, node, number, gbit_per_second)
        yield nodes
    finally:
        for name in (switch, *nodes):
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


@contextmanager
def parted(node: str) -> Iterator[None]:
    """The node's link is down at the switch, as when a cable is pulled: all is lost and nobody is told."""
    prefix, _, number = node.rpartition("-")
    link = ("ip", "-n", f"{prefix}-switch", "link", "set", f"port{number}")
    _run(*link, "down")
    try:
        yield
    finally:
        _run(*link, "up")


def address_of(node: str) -> str:
    return f"10.77.0.{node.rpartition('-')[2]}"


def _join(switch: str, node: str, number: int, gbit_per_second: float) -> None:
    """A node's link to the switch: held to the rate where it leaves either."""
    port = f"port{number}"
    _run("ip", "-n", switch, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", node)
    _run("ip", "-n", switch, "link", "set", port, "master", "bridge", "up")
    _run("ip", "-n", node, "addr", "add", f"10.77.0.{number}/24", "dev", "eth0")
    _run("ip", "-n", node, "link", "set", "eth0", "up")
    # Ray takes for its own the address by which it would leave.
    _run("ip", "-n", node, "route", "add", "default", "dev", "eth0")
    for namespace, device in ((node, "eth0"), (switch, port)):
        # A burst of a millisecond, and of two segments as TCP hands them over at least; a queue of
        # ten milliseconds: what a switch port buffers.
        rate = gbit_per_second * 1e9
        burst = max(2 * 2**16, rate / 8e3)
        limited = f"rate {rate:.0f}bit burst {burst:.0f} latency 10ms"
        _run(*f"tc -n {namespace} qdisc add dev {device} root tbf {limited}".split())


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoNodes(f"{' '.join(command)}: {done.stderr.strip()}")


def measured(gbit_per_second: float, network: str, gpu: str, *, minutes: str = _MINUTES) -> dict[str, Any]:
    """The anchor document of `advisor measure` on all nodes, as the first one wrote it."""
    with emulated_nodes(gbit_per_second) as nodes, tempfile.TemporaryDirectory() as folder:
        processes = []
        for number, node in enumerate(nodes, 1):
            file = Path(folder) / f"{number}.json"
            words = (
                f"--model {network} --task training --minutes {minutes} --ranks 1 --nodes {NODES} "
                f"--node-rank {number} --rendezvous 10.77.0.1:{PORT} "
                f"--network-gbit {gbit_per_second:g} --accelerator emulated:{gpu} --out {file}"
            )
            advisor = (sys.executable, "-m", "advisor.cli.main", "measure")
            command = ["ip", "netns", "exec", node, *advisor, *words.split()]
            processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
        try:
            for process in processes:
                said, _ = process.communicate(timeout=_TIMEOUT_SECONDS)
                if process.returncode:
                    raise RuntimeError(said.decode())
        finally:
            for process in processes:
                process.kill()
                process.wait()
        document: dict[str, Any] = json.loads((Path(folder) / "1.json").read_text())
        return document


def compared(document: dict[str, Any]) -> dict[str, Any]:
    """A document's scaling beside the model's."""
    (row,) = document["scaling"]
    facts = "accelerator batch_size backend ranks nodes gbit_per_second gradient_bytes efficiency"
    seconds = statistics.median(row["all_reduce_seconds"])
    model = float(all_reduce_seconds(row["gradient_bytes"], row["ranks"], row["gbit_per_second"]))
    return {
        "network": document["what"]["name"],
        **{name: row[name] for name in facts.split()},
        "one_step_seconds": statistics.fmean(row["one_step_seconds"]),
        "step_seconds": statistics.fmean(row["step_seconds"]),
        "all_reduces": len(row["all_reduce_seconds"]),
        "all_reduce_seconds": seconds,
        "model_all_reduce_seconds": model,
        "model_over_measured": model / seconds,
    }
