"""Networks at one input, as the performance model asks for them: those that ship, and one of a user's."""

from __future__ import annotations

from functools import cache

from msgspec.structs import replace

from advisor.domain import Workload
from advisor.errors import UsageError
from advisor.models.performance.network_table import NetworkFacts, network_table


class NetworkTable:
    """Facts of every network of the bundled table, and of `own`, a network of the user's."""

    def __init__(self, own: NetworkFacts | None = None) -> None:
        self._own = own

    @property
    def names(self) -> tuple[str, ...]:
        """All networks with facts: those that ship, sorted, and the own one."""
        return (*network_table().names, self._own.name) if self._own else network_table().names

    def knows(self, name: str) -> bool:
        """Whether `find` finds it."""
        return self._is_own(name) or network_table().knows(name)

    def find(self, name: str, source: str | None = None) -> NetworkFacts:
        """Facts of the network under any of its names, at the input `source` (None: its own).

        Other inputs than were captured are scaled from the nearest. Raises `UsageError` with near names for
        an unknown one, and for an input that it does not take."""
        if not (self._own and name == self._own.name):
            return _facts(name, source)
        if source not in (None, self._own.input):
            raise UsageError(
                "{name} is known at {input} alone", hint="leave out --input", name=name, input=self._own.input
            )
        return self._own

    def other_names(self, name: str) -> tuple[str | None, str | None]:
        """The name that a name was resolved to, and the network it may be mistaken for; None for neither."""
        if self._is_own(name) or not network_table().knows(name):
            return None, None
        return network_table().other_names(name)

    def of(self, workload: Workload) -> NetworkFacts:
        """Facts of a workload's network at its input; raises as `find` does."""
        return self.find(workload.network, workload.input)

    def __getitem__(self, name: str) -> NetworkFacts:
        """Facts of `name` at its own input; a `UsageError` with near names where there are none."""
        return self.find(name)

    def _is_own(self, name: str) -> bool:
        return self._own is not None and name == self._own.name


@cache
def _facts(name: str, source: str | None) -> NetworkFacts:
    """A network of the table, by the shortest name that means it."""
    network = network_table().find(name, source)
    return replace(network, name=network_table().shortest_name(network))


@cache
def bundled_networks() -> NetworkTable:
    """The table that ships."""
    return NetworkTable()
