"""Whether a rate is what was achieved, and its interval where the next run lies.

`python -m benchmarks.rates PART --json`; each part takes up to four minutes on a quiet machine,
coverage about twelve:

stalls: rates of runs with stalls and slow phases over what was achieved, by the worker's own run.
coverage: how often the interval of one run, and of three, holds the rate of another one, and by
    how much runs differ. Takes up to --minutes, keeps its runs in --rows, and goes on there.
pairs: an emulated-GPU trial beside the same loop written by hand, in turns.
sweeps: two sweeps of one plan; or two files of `advisor measurements export --format jsonl`.

One JSON document on stdout, progress on stderr.
"""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.rates import coverage, pairs, stalls, sweeps

PARTS: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
    "stalls": lambda _: stalls.figures(),
    "coverage": lambda options: coverage.figures(options.repeats, options.minutes, options.rows),
    "pairs": lambda options: pairs.figures(options.pairs),
    "sweeps": lambda options: sweeps.figures(options.files, shlex.split(options.options)),
}


def main() -> None:
    """Measure one part, and print its figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("files", nargs="*", type=Path, help="of sweeps: two exports")
    parser.add_argument("--repeats", type=int, default=100, help="of coverage: runs of all trials")
    parser.add_argument("--minutes", type=float, default=8.0, help="of coverage: no run after that")
    parser.add_argument("--rows", type=Path, default=Path("rates-coverage.jsonl"))
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument(
        "--options", default="", help='of sweeps: more for `advisor sweep run`: "--repeats 3"'
    )
    parser.add_argument("--json", action="store_true", help="there is no other form")
    options = parser.parse_args()
    result = PARTS[options.part](options)
    print(json.dumps({"schema": f"advisor.rates-{options.part}/1", **result}, indent=2))


if __name__ == "__main__":
    main()
