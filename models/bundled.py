"""The files of the performance model that ship, checked against their digests."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from advisor.errors import DataError

FOLDER = Path(__file__).parents[2] / "advisor" / "data" / "performance"
MANIFEST = "manifest.json"
MODEL = "default_model.json"
STEP_TIMES, CPU_STEP_TIMES = "step_times.npy", "cpu_step_times.npy"


def read_bundled(name: str) -> str:
    """The text of a bundled file; `DataError` when it is missing or not what was shipped."""
    return _checked_bytes(name).decode()


def read_bundled_array(name: str) -> Any:
    """The array in a bundled .npy, checked and then mapped: what nobody asks for is not copied.

    Raises as `read_bundled` does."""
    _checked_bytes(name)
    try:
        return np.load(FOLDER / name, mmap_mode="r")
    except (OSError, ValueError, EOFError) as error:
        raise DataError(
            "{folder} cannot be read ({error})", hint=_way_out(), folder=FOLDER / name, error=error
        ) from error


def _checked_bytes(name: str) -> bytes:
    return checked(FOLDER / name, lambda: json.loads((FOLDER / MANIFEST).read_text())[name])


def checked(path: Path, digest: Callable[[], str]) -> bytes:
    """The bytes of a file with that SHA-256; raises as `read_bundled` does."""
    try:
        expected = digest()
        content = path.read_bytes()
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError("{path} cannot be read ({error})", hint=_way_out(), path=path, error=error) from error
    if hashlib.sha256(content).hexdigest() != expected:
        raise DataError("{path} is damaged", hint=_way_out(), path=path)
    return content


def _way_out() -> str:
    return "install the package again (in a checkout: python -m benchmarks.bundled_model)"


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
