"""`python -m benchmarks.network_operations FILE [--data DIR] [--seconds N]`: captured operations.

Adds to FILE (benchmarks/data/operations.csv.gz) every step that is missing: all networks of timm
(Apache-2.0) at the sizes of their weights in mixed precision, those of torchvision (BSD-3-Clause)
at 224 pixels in fp32, and what the rows under --data name. Only counts of operations are kept, no
code and no weights. Half a second a step; networks that torch cannot follow are named on stderr.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from advisor.domain import Task
from advisor.errors import AdvisorError
from advisor.operations.capturing import capture_library_rows
from models.performance.layerwise import NetworkKey, OperationTable, read_operations

_SAVED_EVERY = 60.0
_TASKS = (Task.INFERENCE, Task.TRAINING)


def library_keys() -> Iterator[NetworkKey]:
    """What the libraries' own lists name; inference first, it is asked for more often."""
    from models.zoo.libraries import library_names, timm_sizes

    names = library_names("timm")
    for name in library_names("torchvision"):
        for task in _TASKS:
            yield NetworkKey("torchvision", name, 224, task, False)
    for name in names:
        for pixels in timm_sizes(name):
            yield NetworkKey("timm", name, pixels, Task.INFERENCE, True)
    for name in names:
        for pixels in timm_sizes(name)[:1]:
            yield NetworkKey("timm", name, pixels, Task.TRAINING, True)


def data_keys(folder: Path) -> Iterator[NetworkKey]:
    """What the measured rows name, with folded forms where a network has one."""
    from benchmarks.accuracy.network_rows import read_rows

    rows, _ = read_rows(folder)
    yield from sorted({key for row in rows for key in row.candidates})


def complete(table: OperationTable, keys: Iterable[NetworkKey], path: Path, seconds: float) -> int:
    """Capture what is missing until the time is up; how many were added."""
    start = saved = time.monotonic()
    added = 0
    for key in keys:
        if key in table:
            continue
        try:
            table.add(key, *capture_library_rows(key))
            added += 1
        except AdvisorError as error:
            sys.stderr.write(f"{error}\n")
        now = time.monotonic()
        if now - saved > _SAVED_EVERY:
            table.write(path)
            saved = now
        if now - start > seconds:
            break
    table.write(path)
    return added


def main() -> None:
    """Complete the file that is named."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--data", type=Path, help="folder with perfmodel/timm and the like")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this")
    asked = parser.parse_args()
    table = read_operations(asked.file) if asked.file.exists() else OperationTable({})
    keys = data_keys(asked.data) if asked.data else library_keys()
    added = complete(table, keys, asked.file, asked.seconds)
    print(f"{added} steps added, {len(table.keys)} in {asked.file}")


if __name__ == "__main__":
    main()
