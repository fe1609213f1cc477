"""Launches on AWS with everything going wrong by chance; what must hold, checked after each.

    python -m benchmarks.launches --json                      # 1,000 of them
    python -m benchmarks.launches --json --seed 5000 --launches 200
    python -m benchmarks.launches --json --broken all         # can it fail at all?

moto's EC2 behind its own ways (tokens that dedupe, lists that lag, capacity that runs out) and
behind faults: all 24 codes, lost and cut and foreign answers, kill -9 and Ctrl-C before and after
any call, starts of instances that fail; the clock is a fake one. After one pass of the reaper
nothing may be left, never may two instances have run at once, no bill may pass its budget by more
than a billing minute, and of each start that failed something is read, its log or its console. Exit
code 1 when something does not hold, or a broken product is not noticed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from advisor.infra.aws.provisioning.fallbacks import Fallbacks
from advisor.infra.aws.provisioning.provisioner import NoCapacityError, Provisioner
from tests.infra.aws.bed import Bed, prepared
from tests.infra.aws.breaking import BREAKS
from tests.infra.aws.builders import a_slot, looked
from tests.infra.aws.series import series
from tests.infra.live.conftest import without_real_aws


@contextmanager
def a_bed(broken: str = "") -> Iterator[Bed]:
    """An account, and the product as it is or broken in one way."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        without_real_aws(patch, Path(folder))
        with prepared(patch) as bed:
            if broken:
                BREAKS[broken](patch)
            yield bed


def offers_in_a_minute() -> int:
    """How many offers are tried in 60 s of the fake clock where nothing has capacity."""
    with a_bed() as bed:
        found = looked(bed, "g4dn.xlarge", "g4dn.2xlarge", regions=("us-east-1", "us-east-2"))
        bed.ways.out = {("", "", "")}
        fallbacks, began = Fallbacks(found.options), bed.clock.now()
        tried: list[Any] = []
        bed.faulty.on_answer = lambda request: tried.append((bed.clock.now(), request.operation))
        with suppress(NoCapacityError):
            Provisioner(bed.aws(), a_slot(found, budget_usd=50.0), fallbacks).get(began)
        until = began + timedelta(seconds=60)
        return sum(at <= until and name == "RunInstances" for at, name in tried)


def noticed(names: list[str], seed: int, launches: int) -> dict[str, Any]:
    """For each break, after how many launches it was noticed, and by what."""
    found = {}
    for name in names:
        with a_bed(name) as bed:
            told = series(bed, range(seed, seed + launches), stop_at_first=True)
        first = next(iter(told.wrong.values()), [])
        found[name] = {"after_launches": told.launches if first else None, "by": first}
    return found


def main() -> int:
    """Run, and print the document."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--json", action="store_true", help="the only output there is")
    asked.add_argument("--launches", type=int, default=1_000)
    asked.add_argument("--seed", type=int, default=0, help="of the first launch")
    asked.add_argument("--broken", choices=("all", *BREAKS), help="break the product first")
    options = asked.parse_args()
    if options.broken:
        names = list(BREAKS) if options.broken == "all" else [options.broken]
        document = noticed(names, options.seed, options.launches)
        held = all(one["after_launches"] for one in document.values())
    else:
        with a_bed() as bed:
            done = series(bed, range(options.seed, options.seed + options.launches))
        document = {"first_seed": options.seed, **done.document()}
        document["offers_in_60_s_without_capacity"] = offers_in_a_minute()
        held = not done.wrong and document["offers_in_60_s_without_capacity"] >= 12
    print(json.dumps(document, indent=1))
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
