"""What a data set of a million files costs a plan and a trial.

`python -m benchmarks.million_files --json` makes a folder of a million names in a thousand folders
(hard links to a few small photographs, so that it takes a minute). Each step runs in a process of
its own: `first` finds the files and profiles them, `plan` plans 100 trials on them, `open` is what
a worker does before it reads, `read` also reads 10,000 samples. Seconds are without imports, peaks
with them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SCHEMA = "advisor.benchmarks.million-files/1"
_CLASSES = 1000
_LINKS = 50_000  # of one file; ext4 allows 65,000
_AFTER = """
import json, resource, sys, time
from pathlib import Path
folder = Path(sys.argv[1])
{imports}
begun = time.perf_counter()
{code}
print(json.dumps({{"seconds": round(time.perf_counter() - begun, 3),
                   "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024}}))
"""
# Imports, and what is timed.
STEPS = {
    "first": ("from advisor.sweeps.datasets.opening import profile_folder", "profile_folder(folder)"),
    "plan": (
        """
from advisor.domain import Task
from advisor.runs.sweep_questions import SweepGrid
from advisor.runs.sweeps.data import planned_data
from advisor.runs.sweeps.sweeping import plan_sweep
""",
        """
grid = SweepGrid(
    networks=("resnet50",), tasks=(Task.PREPROCESSING,), data=str(folder),
    vcpus=tuple(0.2 + 0.05 * n for n in range(25)), memory=(1024.0, 2048.0),
    disks=("gp3", "slow=20MiB/s"),
)
assert len(plan_sweep(grid, planned_data(grid), anywhere=True)) == 100
""",
    ),
    "open": ("from advisor.sweeps.datasets.opening import open_dataset", "open_dataset(folder)"),
    "read": (
        "from advisor.sweeps.datasets.opening import open_dataset",
        "source = open_dataset(folder)\nfor index in range(10_000): source.read(91 * index % len(source))",
    ),
}


def figures(folder: Path, files: int) -> dict[str, Any]:
    """Seconds and peak memory of each step, in a process of its own, imports not counted in the
    seconds."""
    with tempfile.TemporaryDirectory() as cache:
        return {
            "schema": SCHEMA,
            "files": files,
            "steps": {name: _step(*step, folder, cache) for name, step in STEPS.items()},
        }


def _step(imports: str, code: str, folder: Path, cache: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", _AFTER.format(imports=imports, code=code), str(folder)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "XDG_CACHE_HOME": cache},
    )
    return json.loads(done.stdout)


def make_files(folder: Path, files: int) -> None:
    """In `_CLASSES` folders, as ImageNet's training set has them."""
    from PIL import Image

    for number in range(files):
        place, photograph = folder / f"n{number % _CLASSES:08d}", folder / f"{number // _LINKS}.JPG"
        if number < _CLASSES:
            place.mkdir()
        if not number % _LINKS:
            Image.new("RGB", (40, 30), (number // _LINKS % 256, 0, 0)).save(photograph, "JPEG")
        os.link(photograph, place / f"{place.name}_{number}.JPEG")
    for photograph in folder.glob("*.JPG"):
        photograph.unlink()


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--json", action="store_true", help="there is no other form")
    files = parser.parse_args().files
    with tempfile.TemporaryDirectory() as folder:
        make_files(Path(folder), files)
        time.sleep(2.5)  # what has just changed is not kept
        print(json.dumps(figures(Path(folder), files), indent=1))


if __name__ == "__main__":
    main()
