"""The question of `advisor measure` about a training on several GPUs or nodes."""

from __future__ import annotations

from functools import partial

from advisor.questions.fields import Number, Text, error_in
from advisor.questions.question import Question, ask

_ranks = partial(ask, section="Training on several GPUs or nodes (--ranks)")
_MOST_RANKS, _MOST_NODES = 64, 1024
_MOST_PORT = 65535


class Ranks(Question):
    """How many processes train together, and how nodes find each other."""

    ranks: int | None = _ranks(
        "Measure how training scales over so many processes on each node, one a GPU.",
        Number(whole=True, most=_MOST_RANKS),
        "one process, no scaling",
    )
    nodes: int = _ranks(
        "Nodes that train together; the same command runs on each.",
        Number(whole=True, most=_MOST_NODES),
        default=1,
    )
    node_rank: int = _ranks(
        "Which of the nodes this one is, from 1.", Number(whole=True, most=_MOST_NODES), default=1
    )
    rendezvous: str | None = _ranks(
        "Address and free port of the first node, as 10.0.0.5:29500.", Text("HOST:PORT"), "this node alone"
    )
    network_gbit: float | None = _ranks(
        "Gbit/s of the network between the nodes, as sold: the baseline, never the burst.",
        Number(metavar="GBIT/S"),
        "not known: how much of it is reached stays unknown",
    )
    accelerator: str | None = _ranks(
        "emulated:T4 exchanges real gradients at the pace of a GPU that is not here.",
        Text("emulated:GPU"),
        "this machine's GPUs, else its CPU",
    )
    batch_size: int = _ranks(
        "With --ranks: samples of a batch of one rank.", Number(whole=True, most=1_000_000), default=32
    )

    def __post_init__(self) -> None:
        for name, field in self.fields.items() if self.ranks is None else ():
            if self.differs(field):
                raise error_in(
                    name, "{field} goes with {ranks}", hint="say how many processes train with {ranks}"
                )
        if self.node_rank > self.nodes:
            raise error_in(
                "node_rank", "node {node_rank} of {nodes} is none", node_rank=self.node_rank, nodes=self.nodes
            )
        if (self.nodes > 1) != (self.rendezvous is not None):
            raise error_in(
                "rendezvous",
                "{field} goes with more than one of {nodes}, which need it",
                hint="give both, the same on each node",
            )
        if self.rendezvous is not None:
            host, _, port = self.rendezvous.rpartition(":")
            if not (host and port.isdecimal() and 0 < int(port) <= _MOST_PORT):
                raise error_in("rendezvous", "'{text}' is no HOST:PORT", text=self.rendezvous)
