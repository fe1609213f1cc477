"""The files of the performance model, the GPUs' data sheets, and how far predictions are to be trusted."""

from __future__ import annotations

import csv
import hashlib
import json
import math
from collections.abc import Callable, Hashable
from functools import cache
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from advisor.domain import Gpu, Withheld
from advisor.errors import DataError

FOLDER = Path(__file__).parents[2] / "advisor" / "data" / "performance"
# The one table of GPUs is the catalogue's, under the catalogue's seal.
GPUS = FOLDER.parent / "catalog" / "gpus.csv"
# Watts a multiprocessor and GHz of cards that hold their boost clock, by compute capability.
_WATTS_NEEDED = {
    "5": 3.3,
    "6": 3.2,
    "6.1": 5.2,
    "7.0": 2.2,
    "7.5": 2.2,
    "8.0": 1.7,
    "8.6": 2.5,
    "8.7": 2.5,
    "8.9": 1.4,
    "9": 2.1,
    "10": 3.5,
    "12": 1.4,
}


def read_data_sheets() -> str:
    """The text of the table of GPUs; raises as `read_bundled` does."""
    manifest = GPUS.parent / MANIFEST
    return checked(
        GPUS, lambda: json.loads(manifest.read_text())["files"]["catalog/gpus.csv"]["sha256"]
    ).decode()


def power_ratio(gpu: Gpu) -> float:
    """Log of the watts that a multiprocessor has at its clock, over what one of its architecture needs to
    hold it; 0 where it has enough, or nobody knows.

    Boost clocks of sheets are not held under load by cards of few watts: a T4 of 70 W does 25 of its 65
    TFLOPS, an L4 of 72 W 65 of 121, an A10 of 150 W 54 of 125."""
    needed = _WATTS_NEEDED.get((gpu.compute_capability or "").partition(".")[0])
    needed = _WATTS_NEEDED.get(gpu.compute_capability or "", needed)
    if not (needed and gpu.watts and gpu.sms and gpu.boost_mhz):
        return 0.0
    return min(0.0, math.log(gpu.watts / (gpu.sms * gpu.boost_mhz / 1e3) / needed))


MANIFEST = "manifest.json"
MODEL = "default_model.json"
STEP_TIMES, CPU_STEP_TIMES = "step_times.npy", "cpu_step_times.npy"


def read_bundled(name: str) -> str:
    """The text of a bundled file; `DataError` when it is missing or not what was shipped."""
    return _checked_bytes(name).decode()


def read_bundled_array(name: str) -> Any:
    """The array in a bundled .npy, checked and then memory-mapped, so that unused parts are not copied.

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
    return "install the package again (in a checkout: python -m advisor.infra.build.fitting.bundled_model)"


Value = TypeVar("Value")


class IdentityCache(Generic[Value]):
    """At most `most` values. It holds the objects, so that no others can take their identity."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._entries: dict[Hashable, tuple[tuple[object, ...], Value]] = {}

    def get(self, objects: tuple[object, ...], key: Hashable, make: Callable[[], Value]) -> Value:
        """The value for these objects (by identity) and `key`; made and stored if missing."""
        name = (*map(id, objects), key)
        entry = self._entries.get(name)
        if entry is None:
            value = make()
            if len(self._entries) >= self._most:
                self._entries.clear()
            entry = self._entries[name] = (objects, value)
        return entry[1]


# Written from the scorers' pages by `python -m benchmarks.truth.trust`, as docs/explanation/trust.md is.
WITHHELD = FOLDER.parent / "withheld.csv"


@cache
def withheld_tests() -> dict[tuple[str, str], Withheld]:
    """Each test of truth that was measured and kept from the fit, by the figure that was predicted ("rate",
    "TPOT", ..) and by what was withheld."""
    with WITHHELD.open(encoding="utf-8", newline="") as lines:
        return {
            (row["figure"], row["what"]): Withheld(
                row["what"], float(row["median_percent"]), float(row["held_percent"]), int(row["rows"])
            )
            for row in csv.DictReader(lines)
        }
