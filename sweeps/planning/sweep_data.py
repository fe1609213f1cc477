"""The stored data that a sweep's networks read: images for some, text for others."""

from __future__ import annotations

from dataclasses import dataclass

from advisor.domain import DatasetProfile
from advisor.errors import UsageError
from advisor.messages import Message
from sweeps.planning.networks import PlannedNetwork


@dataclass(frozen=True, slots=True)
class StoredData:
    """A data set and the file or folder where it lies (empty: made in memory)."""

    profile: DatasetProfile
    path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepData:
    """What there is to read; None where there is none of the kind."""

    images: StoredData | None = None
    text: StoredData | None = None

    @property
    def stored(self) -> tuple[StoredData, ...]:
        """What is read from files."""
        return tuple(entry for entry in (self.images, self.text) if entry)

    def of(self, network: PlannedNetwork) -> StoredData:
        """What a network reads; `UsageError` where that is not here."""
        name = network.info.name
        if network.photographs:
            return self._there(self.images, name, "images", "a folder of them")
        if network.text:
            return self._there(self.text, name, "text", "a text file")
        return StoredData(network.made_data)

    def _there(self, data: StoredData | None, name: str, kind: str, wanted: str) -> StoredData:
        if data is None:
            raise UsageError(
                "{name} reads {kind}",
                hint=Message("name {wanted} with --data, or leave it out", wanted=wanted),
                name=name,
                kind=kind,
            )
        return data
