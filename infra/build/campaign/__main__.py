"""`python -m advisor.infra.build.campaign gpu|cpu`: measure all networks; progress on stderr, rows to a
file.
`python -m advisor.infra.build.campaign language`: language models of random weights
(`campaign/language`).

Ends with 0 (all done, or the minutes used up: run it again to go on), 1 when it cannot measure,
2 for wrong arguments, 130 after Ctrl-C. What was measured is in the file at any time.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from advisor.domain import ON_ANY_GPU, ON_CPU
from advisor.errors import AdvisorError
from advisor.infra.build.campaign.cells import BRIEF, FULL, QUICK
from advisor.infra.build.campaign.session import run_campaign

_ACCELERATORS = {"gpu": ON_ANY_GPU, "cpu": ON_CPU}
_LANGUAGE = "language"
_MOST_MINUTES = 24 * 60


def main(arguments: list[str] | None = None) -> int:
    """Run the campaign; returns the exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    if words[:1] == [_LANGUAGE]:
        options, run = _language_parser().parse_args(words[1:]), _run_language
    else:
        options, run = _parser().parse_args(words), _run
        options.out = options.out or Path(f"campaign-{options.device}.jsonl")
    try:
        return run(options)
    except AdvisorError as error:
        _report(f"campaign: {' '.join(str(error).split())}")
        return error.exit_code
    except KeyboardInterrupt:
        _report(f"campaign: interrupted; {options.out} has what was measured, run again to go on")
        return 130


def _run(options: argparse.Namespace) -> int:
    begun = time.monotonic()
    finished = run_campaign(
        _ACCELERATORS[options.device],
        networks=options.networks,
        budget=QUICK if options.quick else BRIEF if options.brief else FULL,
        out=options.out,
        data=options.data,
        ends_at=begun + options.minutes * 60,
        report=_report,
    )
    _report_end(finished, options.out)
    return 0


def _run_language(options: argparse.Namespace) -> int:
    from advisor.infra.build.campaign.language.command import run_language

    _report_end(run_language(options, _report), options.out)
    return 0


def _report_end(finished: bool, out: Path) -> None:
    ending = "all cells are measured" if finished else "more is left; run again to go on"
    _report(f"campaign: {ending}: {out}")


def _language_parser() -> argparse.ArgumentParser:
    from advisor.infra.build.campaign.language.command import add_options

    parser = argparse.ArgumentParser(prog=f"python -m advisor.infra.build.campaign {_LANGUAGE}")
    add_options(parser, _minutes)
    return parser


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m advisor.infra.build.campaign", description=__doc__)
    parser.add_argument("device", choices=sorted(_ACCELERATORS), help="what computes the steps")
    parser.add_argument("--out", type=Path, help="a JSONL file that is gone on with")
    parser.add_argument("--networks", type=_names, help="of the zoo, or file.py:build; default: all")
    parser.add_argument("--minutes", type=_minutes, default=9.0, help="nothing begins later (9)")
    parser.add_argument("--data", type=Path, help="JPEG files for the real input pipeline")
    brief = "batches of 1, 8 and 32 in fp32 and no real input: a CPU's rates"
    parser.add_argument("--brief", action="store_true", help=brief)
    parser.add_argument("--quick", action="store_true", help="small batches, short steps: a trial")
    return parser


def _names(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise argparse.ArgumentTypeError("names of networks, separated by commas")
    return names


def _minutes(text: str) -> float:
    try:
        minutes = float(text)
    except ValueError:
        minutes = 0.0
    if not 0 < minutes <= _MOST_MINUTES:
        raise argparse.ArgumentTypeError(f"a number of minutes up to {_MOST_MINUTES}")
    return minutes


def _report(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    raise SystemExit(main())
