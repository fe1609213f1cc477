"""`python -m benchmarks.accuracy --train DIR --score DIR [--suite NAME] --json`.

Both directories have the layout of the public data sets (articles/, catalog/, perfmodel/). Models
are fitted on rows under --train only, and predict rows under --score; where both are the same,
one network, GPU or workload is left out at a time. Step times: benchmarks.truth. One JSON document
on stdout, progress on stderr.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from benchmarks.accuracy.figures import SCHEMA, NothingToScore

SUITES = ("gpu_memory", "search")


def run_suites(train: Path, score: Path, names: tuple[str, ...]) -> dict[str, Any]:
    """The entries of the named suites, and those that could not be scored."""
    suites, skipped = [], []
    for name in names:
        start = time.perf_counter()
        sys.stderr.write(f"{name} ...\n")
        module = importlib.import_module(f"benchmarks.accuracy.{name}")
        try:
            entry = module.run(train, score).as_document()
            suites.append({**entry, "seconds": round(time.perf_counter() - start, 1)})
        except NothingToScore as reason:
            skipped.append({"suite": name, "reason": str(reason)})
            sys.stderr.write(f"{name}: skipped, {reason}\n")
        except Exception as error:  # rows nobody has seen must not cost the other suites' figures
            traceback.print_exc()
            skipped.append({"suite": name, "reason": f"failed: {type(error).__name__}: {error}"})
    return {"schema": SCHEMA, "suites": suites, "skipped_suites": skipped}


def main() -> None:
    """Print the figures; they take minutes, so say what is going on."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--train", type=Path, required=True, help="folder whose rows are fitted")
    parser.add_argument("--score", type=Path, help="folder of the predicted rows (--train)")
    parser.add_argument("--suite", choices=SUITES, action="append", help="repeatable; default: all")
    parser.add_argument("--json", action="store_true", help="there is no other form")
    asked = parser.parse_args()
    score = asked.score or asked.train
    for folder in (asked.train, score):
        if not folder.is_dir():
            parser.error(f"no folder '{folder}'")
    document = run_suites(asked.train, score, tuple(asked.suite or SUITES))
    print(json.dumps(document, indent=2))


if __name__ == "__main__":
    main()
