"""A bounded cache of what follows from large objects, which are named by identity, not by value."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class IdentityCache(Generic[Value]):
    """At most `most` values. It holds the objects, so that no others can take their identity."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._entries: dict[Hashable, tuple[tuple[object, ...], Value]] = {}

    def get(self, objects: tuple[object, ...], key: Hashable, make: Callable[[], Value]) -> Value:
        """The value of these very objects under `key`; made where it is not there yet."""
        name = (*map(id, objects), key)
        entry = self._entries.get(name)
        if entry is None:
            value = make()
            if len(self._entries) >= self._most:
                self._entries.clear()
            entry = self._entries[name] = (objects, value)
        return entry[1]
