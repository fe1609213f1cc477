"""`python -m advisor.infra.build.networks build [--only PATTERN] [--resume]`: builds the network table.

Captures every network of torchvision, timm, transformers, diffusers and the advisor's own at the inputs that
people use, without downloads, and writes advisor/data/performance/networks.csv and operations.npy. Each
network's facts are first kept as one file of the work folder: `--resume` uses those that are there. What
torch cannot follow is listed with its reason, and left out. All of it takes about half an hour on two cores;
`--only 'timm/vit_*'` brings some up to date."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from advisor.infra.build.networks.table import capture_all, result_path, write_table
from advisor.infra.build.networks.variants import Variant, timm_variants, unique
from advisor.models.performance.networks import FOLDER

_WORK = Path.home() / ".cache" / "instance-sizing-advisor" / "networks"


def all_variants() -> list[Variant]:
    """Every variant of the table, in its order: a network's usual input first."""
    from advisor.infra.build.networks.diffusion import diffusion_variants
    from advisor.infra.build.networks.encoders import transformers_variants
    from advisor.infra.build.networks.own import own_variants
    from advisor.infra.build.networks.seeing import torchvision_variants
    from advisor.infra.build.networks.variants import timm_aliases
    from advisor.models.zoo.torchvision_operators import import_torchvision

    import_torchvision()  # before any other library does
    timm = timm_variants(timm_aliases())
    return unique(
        [*torchvision_variants(), *timm, *transformers_variants(), *diffusion_variants(), *own_variants()]
    )


def build(variants: Sequence[Variant], options: argparse.Namespace) -> int:
    """Capture the selected variants and write the table; returns how many networks failed."""
    chosen = [entry for entry in variants if not options.only or fnmatchcase(entry.key, options.only)]
    if not options.resume:
        for variant in chosen:
            result_path(options.work, variant.key).unlink(missing_ok=True)
    results = capture_all(chosen, options.work, processes=options.processes, seconds_each=options.seconds)
    for number, (key, failed) in enumerate(results, 1):
        if failed or number % 50 == 0:
            _say(f"{number}: {key} {failed}")
    facts, missing = _read(variants, options.work)
    written = write_table(variants, facts, options.folder)
    for key, why in missing.items():
        _say(f"not in the table: {key}: {why}")
    counted = Counter(key.partition("/")[0] for key in facts)
    _say(f"{written} lines in {options.folder}; captured here: {dict(counted)}, {len(missing)} failed")
    return len(missing)


def _read(variants: Iterable[Variant], work: Path) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Facts by key, and by key the reasons why other variants have none."""
    facts, failed = {}, {}
    for variant in variants:
        path = result_path(work, variant.key)
        if path.exists():
            document = json.loads(path.read_text())
            if "failed" in document:
                failed[variant.key] = document["failed"]
            else:
                facts[variant.key] = document
    return facts, failed


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def main() -> None:
    """Build the table."""
    parser = argparse.ArgumentParser(
        prog="python -m advisor.infra.build.networks", description=(__doc__ or "").partition("\n")[2]
    )
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("build")
    command.add_argument("--only", metavar="PATTERN", help="as in 'timm/vit_*@3x224x224'")
    command.add_argument("--resume", action="store_true", help="keep what was captured before")
    command.add_argument("--work", type=Path, default=_WORK, help="folder of captured facts")
    command.add_argument("--folder", type=Path, default=FOLDER, help="where the table goes")
    command.add_argument("--processes", type=int, default=2)
    command.add_argument("--seconds", type=float, default=120.0, help="a network may take so long")
    build(all_variants(), parser.parse_args())


if __name__ == "__main__":
    main()
