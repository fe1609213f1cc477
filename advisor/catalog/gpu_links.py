"""How the GPUs of an instance type reach each other.

No cloud has it in an interface. The table `data/language/gpu_links.csv` names families of types by
how their names begin, with the page or data sheet that says so. Of other types the card tells it:
SXM cards sit on a board whose NVLink joins them all.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from advisor.catalog.files import DATA_FOLDER
from advisor.domain import InstanceType

_TABLE = DATA_FOLDER / "language" / "gpu_links.csv"


class GpuLink(NamedTuple):
    """`nvlink` or `pcie`; NVLink joins `joined` GPUs at most. Without a `source` it is
    not published, and PCIe is assumed."""

    kind: str
    joined: int
    source: str

    def among(self, gpus: int) -> str:
        """What so many GPUs of one model replica exchange their parts over."""
        if gpus == 1:
            return "none"
        return self.kind if gpus <= self.joined else "pcie"


UNKNOWN = GpuLink("pcie", 0, "")
_ON_A_BOARD = ("-SXM", "GB200-", "GB300-")
_BOARD = "data sheets of NVIDIA HGX and Grace Blackwell boards"


def gpu_link(instance: InstanceType) -> GpuLink:
    """The link of a type's GPUs: that of the longest beginning of its name in the table, else what
    its card tells."""
    known = _links().get(instance.cloud, ())
    for start, link in known:
        if instance.name.startswith(start):
            return link
    if not known and any(part in (instance.gpu_name or "") for part in _ON_A_BOARD):
        return GpuLink("nvlink", instance.gpu_count, _BOARD)
    return UNKNOWN


@cache
def _links() -> dict[str, tuple[tuple[str, GpuLink], ...]]:
    """Cloud -> beginnings of names with their link, the longest first."""
    _, *lines = _TABLE.read_text(encoding="utf-8").splitlines()
    found: dict[str, list[tuple[str, GpuLink]]] = {}
    for line in lines:
        cloud, start, kind, joined, source = line.split(",")
        found.setdefault(cloud, []).append((start, GpuLink(kind, int(joined), source)))
    return {cloud: tuple(sorted(links, key=lambda one: -len(one[0]))) for cloud, links in found.items()}
