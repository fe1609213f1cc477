"""The networks that can be asked for, and what is known of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from advisor.domain import DataKind, Provenance, Task
from models.performance.networks import NetworkFacts, bundled_networks
from models.zoo.networks import NETWORKS, NetworkInfo

if TYPE_CHECKING:
    from models.performance import PerformanceModel

SCHEMA = "advisor.networks/1"
_COMPUTED = (Task.TRAINING, Task.INFERENCE)
# The extra of this package that builds networks of a library; of others none does.
_NEEDS = {"torchvision": "sweep", "timm": "zoo"}


def networks_document(model: PerformanceModel | None, networks: Iterable[Listed]) -> dict[str, Any]:
    """`advisor.networks/1`; without a performance model no rate is told."""
    return {"schema": SCHEMA, "networks": [one.document(model) for one in networks]}


class Listed(NamedTuple):
    """A network of the table, and what the zoo knows of it where trials can run it."""

    name: str
    entry: NetworkFacts
    info: NetworkInfo | None

    def matches(self, search: str) -> bool:
        """Whether its name, title or family has the text in it, or is like the pattern."""
        title = self.info.title if self.info else ""
        bare = self.name.rpartition("/")[2]
        texts = (self.name, f"{self.entry.library}/{bare}", title, self.entry.family)
        wanted = search.casefold()
        if any(sign in wanted for sign in "*?["):
            return any(fnmatchcase(text.casefold(), wanted) for text in texts)
        return any(wanted in text.casefold() for text in texts)

    def document(self, model: PerformanceModel | None) -> dict[str, Any]:
        """JSON-ready."""
        entry = self.entry
        return {
            "name": self.name,
            **_of_table(entry),
            **(_of_zoo(self.info, entry) if self.info else {}),
            "library": entry.library,
            "family": entry.family,
            "input": entry.input,
            "sample": entry.sample,
            "rates": {str(one): _rates(self.name, one, model) for one in _COMPUTED},
            "gpus_measured": {str(one): gpus_measured(self.name, one, model) for one in _COMPUTED},
        }


def listed_networks(model: PerformanceModel | None, search: str | None = None) -> list[Listed]:
    """Those that match, by family and name."""
    table = model.table if model else bundled_networks()
    found = (Listed(name, table[name], NETWORKS.get(name)) for name in table.names)
    kept = (one for one in found if search is None or one.matches(search))
    return sorted(kept, key=lambda one: (one.entry.family, one.name))


def families_of(networks: Iterable[Listed]) -> dict[str, list[Listed]]:
    """The networks by family, in their order."""
    families: dict[str, list[Listed]] = {}
    for one in networks:
        families.setdefault(one.entry.family, []).append(one)
    return families


def _of_table(entry: NetworkFacts) -> dict[str, Any]:
    computed = _COMPUTED if entry.trains else (Task.INFERENCE,)
    read = [Task.PREPROCESSING] if entry.data is DataKind.IMAGE else []
    return {
        "title": entry.name,
        "kind": str(entry.data),
        "tasks": [str(task) for task in (*computed, *read)],
        "input_shape": list(entry.input_shape),
        "unit": entry.sample,
        "samples_per_row": 1,
        "parameters": entry.parameters,
        "gmacs_per_sample": entry.gmacs,
        "needs": _NEEDS.get(entry.library),
    }


def _of_zoo(info: NetworkInfo, entry: NetworkFacts) -> dict[str, Any]:
    """As trials count it: a row of words holds several samples."""
    return {
        "title": info.title,
        "kind": str(info.kind),
        "tasks": [str(task) for task in info.tasks],
        "input_shape": list(info.input_shape),
        "unit": info.unit,
        "samples_per_row": info.samples_per_row,
        "gmacs_per_sample": entry.gmacs / info.samples_per_row,
        "needs": info.needs,
    }


def gpus_measured(name: str, task: str, model: PerformanceModel | None) -> int:
    """On how many GPUs the network was measured with PyTorch, in whichever precision."""
    if model is None:
        return 0
    return _gpus_by_network(model.step_times.cells).get((name.rpartition("/")[2], str(task)), 0)


@lru_cache(maxsize=8)
def _gpus_by_network(cells: frozenset[str]) -> Mapping[tuple[str, str], int]:
    """By network and task, of cells such as 'resnet50/training/amp/T4'."""
    parts = (cell.split("/", 3) for cell in cells)
    return Counter((name, task) for name, task, _ in {(p[0], p[1], p[3]) for p in parts})


def _rates(name: str, task: Task, model: PerformanceModel | None) -> str | None:
    """The best provenance that any GPU's rate has; None without a performance model."""
    if model is None:
        return None
    published = gpus_measured(name, task, model) > 0
    return str(Provenance.PUBLISHED if published else Provenance.MODELLED)
