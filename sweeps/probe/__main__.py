"""`python -m advisor.sweeps.probe [--quick] [--disk FOLDER] [--only PARTS]`: JSON on stdout.

Progress goes to stderr. Ends with 0 when it answered, 2 for wrong arguments, 130 after Ctrl-C. With `--child`
it answers `advisor probe`: lines `{"progress": ...}`, then `{"probe": ...}`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from advisor.errors import UsageError
from advisor.sweeps.probe.session import PARTS, chosen_parts, run_probe
from advisor.sweeps.trial.child import answer_parent, send_to_parent


def main() -> int:
    """Run the probe and write its document to stdout; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m advisor.sweeps.probe", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a quarter of the time")
    parser.add_argument("--disk", type=Path, default=Path(), help="folder on the disk to read")
    parser.add_argument("--only", default=",".join(PARTS), help=",".join(PARTS))
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    try:
        parts = chosen_parts(options.only)
    except UsageError as error:
        parser.error(str(error))

    def report(line: str) -> None:
        if options.child:
            send_to_parent({"progress": line})
        else:
            print(line, file=sys.stderr, flush=True)  # noqa: T201

    def document() -> dict[str, object]:
        return run_probe(parts, quick=options.quick, disk=options.disk, report=report)

    if options.child:
        return answer_parent(lambda: {"probe": document()})
    try:
        sys.stdout.write(json.dumps(document(), indent=1) + "\n")
    except KeyboardInterrupt:
        report("interrupted")
        return 130
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
