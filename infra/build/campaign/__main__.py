"""`python -m infra.build.campaign gpu-hour`: an hour of a GPU; progress on stderr, rows to a file.
`python -m infra.build.campaign language`: language models of random weights (`campaign/language`).

`gpu-hour` measures kernels, 24 networks and a tenth of them again, in pieces of --minutes: run it again until
all is measured, then `advisor fit --from FILE`. Before each row it prints what the predictor says.

Ends with 0 (all done, or the minutes used up: run it again to go on), 1 when it cannot measure,
2 for wrong arguments, 130 after Ctrl-C. What was measured is in the file at any time.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

from advisor.errors import AdvisorError
from advisor.infra.build.campaign.language.session import add_options, run_language
from advisor.infra.build.campaign.protocol import GPU_HOUR, NETWORKS, NETWORKS_OF_A_CPU, ON_CPU_PLAN, SHORT
from advisor.infra.build.campaign.session import GpuHour

_MOST_MINUTES = 24 * 60


def main(arguments: list[str] | None = None) -> int:
    """Run a campaign; returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        finished = (run_language if options.campaign == "language" else _run_gpu_hour)(options, _report)
    except AdvisorError as error:
        _report(f"campaign: {' '.join(str(error).split())}")
        return error.exit_code
    except KeyboardInterrupt:
        _report(f"campaign: interrupted; {options.out} has what was measured, run again to go on")
        return 130
    ending = "all is measured" if finished else "more is left; run again to go on"
    _report(f"campaign: {ending}: {options.out}")
    return 0


def _run_gpu_hour(options: argparse.Namespace, report: Callable[[str], None]) -> bool:
    plan = SHORT if options.short else GPU_HOUR if options.device == "cuda" else ON_CPU_PLAN
    return GpuHour.of(
        options.out,
        device=options.device,
        plan=plan,
        networks=options.networks or (NETWORKS if options.device == "cuda" else NETWORKS_OF_A_CPU),
        ends_at=time.monotonic() + 60 * options.minutes,
        report=report,
    ).run()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m infra.build.campaign",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    campaigns = parser.add_subparsers(dest="campaign", required=True)
    hour = campaigns.add_parser("gpu-hour", help="kernels and networks on one device")
    hour.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="what computes the steps")
    hour.add_argument(
        "--out", type=Path, default=Path("gpu-hour.jsonl"), help="a JSONL file that is gone on with"
    )
    keys = "as in torchvision/resnet50@3x224x224,advisor/dlrm@13+26; default: the protocol's"
    hour.add_argument("--networks", type=_names, help=keys)
    hour.add_argument("--minutes", type=_minutes, default=9.0, help="nothing begins later (9)")
    hour.add_argument("--short", action="store_true", help="few marks and small batches: a trial")
    add_options(campaigns.add_parser("language", help="language models"), _minutes)
    return parser


def _names(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names or not all("/" in name and "@" in name for name in names):
        raise argparse.ArgumentTypeError("keys as in torchvision/resnet50@3x224x224, separated by commas")
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
    sys.stderr.write(f"{line}\n")  # by lines, also into a file


if __name__ == "__main__":
    raise SystemExit(main())
