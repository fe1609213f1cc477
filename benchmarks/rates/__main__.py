"""Whether a rate is what was achieved, and its interval where the next run lies.

`python -m benchmarks.rates PART --json`; each part takes up to four minutes on a quiet machine,
coverage about twelve:

stalls: rates of runs with stalls and slow phases over what was achieved, by the worker's own run.
coverage: how often the interval of one run, and of three, holds the rate of another one, and by
    how much runs differ. Takes up to --minutes, keeps its runs in --rows, and goes on there.
pairs: an emulated-GPU trial beside the same loop written by hand, in turns.

One JSON document on stdout, progress on stderr.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.rates import coverage, pairs, stalls

PARTS: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
    "stalls": lambda _: stalls.figures(),
    "coverage": lambda options: coverage.figures(options.repeats, options.minutes, options.rows),
    "pairs": lambda options: pairs.figures(options.pairs),
}


def main() -> None:
    """Measure one part, and print its figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--repeats", type=int, default=100, help="of coverage: runs of all trials")
    parser.add_argument("--minutes", type=float, default=8.0, help="of coverage: no run after that")
    parser.add_argument("--rows", type=Path, default=Path("rates-coverage.jsonl"))
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--json", action="store_true", help="there is no other form")
    options = parser.parse_args()
    result = PARTS[options.part](options)
    print(json.dumps({"schema": f"advisor.rates-{options.part}/1", **result}, indent=2))


if __name__ == "__main__":
    main()
