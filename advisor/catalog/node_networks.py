"""How fast an instance type reaches others: the rate that it is sold with for as long as one
wants, never a burst.

No file of the catalogue has it. `data/performance/node_networks.csv` has types from memory of
their cloud's pages; of other types it is not known, and no training is spread over them.
"""

from __future__ import annotations

from collections import Counter
from functools import cache

from advisor.catalog.files import DATA_FOLDER
from advisor.domain import Candidate, InstanceType, Task
from advisor.records import NamedTuple

_MOST_OF_A_CARD = 100.0
_TABLE = DATA_FOLDER / "performance" / "node_networks.csv"


class NodeNetwork(NamedTuple):
    """Gbit/s of a node in each direction, and who says so."""

    gbit_per_second: float
    source: str

    @property
    def takes_several_cards(self) -> bool:
        """Whether one network card is too little: AWS has several, used together by EFA, above
        100 Gbit/s (from memory of EC2's pages, not checked)."""
        return self.gbit_per_second > _MOST_OF_A_CARD


def node_network(instance: InstanceType) -> NodeNetwork | None:
    """Of a type; None where it is not known."""
    return _networks().get((instance.cloud, instance.name))


def types_with_networks() -> Counter[str]:
    """How many types of each cloud have a network that is known."""
    return Counter(cloud for cloud, _ in _networks())


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
