"""`python -m advisor.sweeps.probe [--quick] [--disk FOLDER] [--only PARTS]`: JSON on stdout.

Progress goes to stderr. Ends with 0 when it answered, 2 for wrong arguments, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from advisor.sweeps.machine.processes import end_with_parent
from advisor.sweeps.probe.session import PARTS, run_probe


def main(arguments: list[str] | None = None) -> int:
    """Probe, and write the document to stdout; returns the exit code."""
    options = _parser().parse_args(arguments)
    end_with_parent()
    try:
        document = run_probe(options.only, quick=options.quick, disk=options.disk, report=_report)
    except KeyboardInterrupt:
        _report("interrupted")
        return 130
    sys.stdout.write(json.dumps(document, indent=1) + "\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m advisor.sweeps.probe", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a quarter of the time")
    parser.add_argument("--disk", type=Path, default=Path(), help="folder on the disk to read")
    parser.add_argument("--only", type=_parts, default=tuple(PARTS), help=",".join(PARTS))
    return parser


def _parts(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    unknown = [name for name in names if name not in PARTS]
    if unknown or not names:
        raise argparse.ArgumentTypeError(f"known parts: {','.join(PARTS)}")
    return names


def _report(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    raise SystemExit(main())
