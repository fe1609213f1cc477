"""How fast an instance type reaches others: the rate that it is sold with for as long as one
wants, never a burst.

No file of the catalogue has it. `data/performance/node_networks.csv` names types with the page
that says so; of other types it is not known, and no training is spread over them.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from advisor.catalog.files import DATA_FOLDER
from advisor.domain import Candidate, InstanceType, Task

_TABLE = DATA_FOLDER / "performance" / "node_networks.csv"


class NodeNetwork(NamedTuple):
    """Gbit/s of a node in each direction, and who says so."""

    gbit_per_second: float
    source: str


def node_network(instance: InstanceType) -> NodeNetwork | None:
    """Of a type; None where it is not known."""
    return _networks().get((instance.cloud, instance.name))


def network_between(candidate: Candidate) -> NodeNetwork | None:
    """Of a candidate whose instances train one network together; None where they do not."""
    spec = candidate.spec
    together = spec.count > 1 and candidate.workload.task is Task.TRAINING
    return node_network(spec.offer.instance) if together else None


@cache
def _networks() -> dict[tuple[str, str], NodeNetwork]:
    _, *lines = _TABLE.read_text(encoding="utf-8").splitlines()
    found = {}
    for line in lines:
        cloud, name, rate, source = line.split(",")
        found[cloud, name] = NodeNetwork(float(rate), source)
    return found
