"""`python -m advisor.sweeps.probe [--quick] [--disk FOLDER] [--only PARTS]`: JSON on stdout.

Progress goes to stderr. Ends with 0 when it answered, 2 for wrong arguments, 130 after Ctrl-C. With the same
as one JSON object it is the child of `advisor probe`: lines `{"progress": ...}`, then `{"probe": ...}`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from advisor.sweeps.probe.session import PARTS, run_probe
from advisor.sweeps.trial.child import answer_parent, send_to_parent


def main() -> int:
    """Run the probe and write its document to stdout; returns the exit code."""
    if sys.argv[1:] and sys.argv[1].startswith("{"):
        return answer_parent(lambda: {"probe": _probed(**json.loads(sys.argv[1]))})
    options = _parser().parse_args()
    try:
        document = run_probe(options.only, quick=options.quick, disk=options.disk, report=_report)
    except KeyboardInterrupt:
        _report("interrupted")
        return 130
    sys.stdout.write(json.dumps(document, indent=1) + "\n")
    return 0


def _probed(only: list[str], disk: str, *, quick: bool) -> dict[str, object]:
    def report(line: str) -> None:
        send_to_parent({"progress": line})

    return run_probe(only, quick=quick, disk=Path(disk), report=report)


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
