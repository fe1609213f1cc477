"""The position of a rank: its numbers, the network interface to other nodes, the links between GPUs."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import subprocess
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

_SIOCGIFADDR = 0x8915  # netdevice(7)
_INTERFACES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
_QUERY_SECONDS = 10.0


class RankPlace(Struct, frozen=True, kw_only=True):
    """A rank's numbers as torchrun gives them. `interface` leads to the first node;
    `interface_gbit_per_second` is what its driver says, None where it does not: virtual ones say
    nothing, or something of no meaning. `topology` is what nvidia-smi prints of the GPUs."""

    rank: int
    local_rank: int
    ranks: int
    nodes: int
    on_gpu: bool
    interface: str | None
    interface_gbit_per_second: float | None
    topology: str | None


def place_of_rank(*, on_gpu: bool) -> RankPlace:
    """The position of this process's rank. Gloo and NCCL get the interface that leads to the first node,
    unless the user set one: on hosts with several they choose another one themselves."""
    variables = {name: int(os.environ[name]) for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE")}
    nodes = variables["WORLD_SIZE"] // int(os.environ["LOCAL_WORLD_SIZE"])
    interface = _interface_towards(os.environ["MASTER_ADDR"]) if nodes > 1 else None
    for name in _INTERFACES if interface else ():
        os.environ.setdefault(name, str(interface))
    return RankPlace(
        rank=variables["RANK"],
        local_rank=variables["LOCAL_RANK"],
        ranks=variables["WORLD_SIZE"],
        nodes=nodes,
        on_gpu=on_gpu,
        interface=interface,
        interface_gbit_per_second=_rate(interface) if interface else None,
        topology=_gpu_topology() if on_gpu else None,
    )


def _interface_towards(host: str) -> str | None:
    """The interface with the address from which packets to the host go out."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, 9))  # sends nothing
        own = probe.getsockname()[0]
        for _, name in socket.if_nameindex():
            with suppress(OSError):
                answer = fcntl.ioctl(probe, _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
                # The first node reaches itself over loopback, which leads nowhere else.
                if socket.inet_ntoa(answer[20:24]) == own and name != "lo":
                    return name
    return None


def _rate(interface: str) -> float | None:
    with suppress(OSError, ValueError):
        speed = int(Path(f"/sys/class/net/{interface}/speed").read_text())
        return speed / 1000 if speed > 0 else None
    return None


def _gpu_topology() -> str | None:
    command = ["nvidia-smi", "topo", "-m"]
    with suppress(OSError, subprocess.SubprocessError):
        return subprocess.run(
            command, capture_output=True, text=True, timeout=_QUERY_SECONDS, check=True
        ).stdout
    return None
