"""`python -m advisor.infra.build.campaign language`: measure language models of random weights on one
machine.

Ends with 0 (all done, or the minutes used up: run it again to go on), 1 when it cannot measure,
2 for wrong arguments, 130 after Ctrl-C. What was measured is in the file at any time.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

from advisor.infra.build.campaign.language.cells import TRANSFORMERS, VLLM, full_grid, quick_grid, servers
from advisor.infra.build.campaign.language.session import LanguageCampaign, language_records
from advisor.infra.build.campaign.language.shapes import SHAPES, TINY_SHAPES
from advisor.sweeps.machine.gpu import NO_NVML, gpus
from advisor.sweeps.measure.endpoint.engines import StartedEngine, engine_version

# fp8 has arithmetic of its own from Ada on.
_FP8_CAPABILITY = 8.9


def add_options(parser: argparse.ArgumentParser, minutes: Callable[[str], float]) -> None:
    """Those of this campaign."""
    parser.add_argument(
        "--out", type=Path, default=Path("campaign-language.jsonl"), help="a JSONL file that is gone on with"
    )
    parser.add_argument("--minutes", type=minutes, default=9.0, help="nothing begins later (9)")
    parser.add_argument("--engine", choices=(VLLM, TRANSFORMERS), help="default: vllm where it is installed")
    parser.add_argument("--models", help=f"of {', '.join(SHAPES)}; default: all")
    parser.add_argument("--quick", action="store_true", help="shapes of a few layers on any device: a trial")


def run_language(options: argparse.Namespace, report: Callable[[str], None]) -> bool:
    """Measure what is missing until the minutes are over; whether all is done. `MeasuringError`
    where there is no GPU (but for a quick trial)."""
    begun = time.monotonic()
    capability = _capability(options.quick)
    engine = options.engine or (VLLM if engine_version(StartedEngine.VLLM) else TRANSFORMERS)
    shapes = TINY_SHAPES if options.quick else SHAPES
    if options.models:
        chosen = [name.strip() for name in options.models.split(",")]
        shapes = {name: shape for name, shape in shapes.items() if name in chosen}
    grid = (quick_grid if options.quick else full_grid)(shapes)
    campaign = LanguageCampaign(
        grid=grid,
        device="cuda" if capability else "cpu",
        rows=language_records(options.out),
        ends_at=begun + 60 * options.minutes,
        report=report,
    )
    report(f"campaign: {engine}; {len(campaign.rows.done)} cells are in {options.out} already")
    every = servers(grid, engine, has_fp8=capability >= _FP8_CAPABILITY, has_cuda=capability > 0)
    finished = campaign.run(every)
    report(f"campaign: {campaign.measured} cells measured in this run")
    return finished


def _capability(is_trial: bool) -> float:
    """Compute capability of the first GPU; 0 for none, which only a trial takes."""
    from advisor.errors import MeasuringError

    try:
        found = gpus()
    except MeasuringError as error:
        if is_trial and error.code == NO_NVML:
            return 0.0
        raise
    return float(found[0]["compute_capability"] or 0.0) if found else 0.0
