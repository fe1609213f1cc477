"""Many launches of the chaos one after the other in one account, and what came of them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from advisor.infra.aws.errors import error_codes
from tests.infra.aws.bed import Bed
from tests.infra.aws.builders import looked
from tests.infra.aws.chaos import Launch
from tests.infra.aws.clocks import START


@dataclass
class Series:
    """What happened in the launches of some seeds; `wrong` tells seed by seed what did not hold."""

    launches: int = 0
    with_instance: int = 0
    instances: int = 0
    requests: int = 0
    seconds: float = 0.0
    fake_hours: float = 0.0
    most_minutes_over: float = float("-inf")
    faults: Counter[str] = field(default_factory=Counter)
    failed_boots: Counter[str] = field(default_factory=Counter)
    fates: Counter[str] = field(default_factory=Counter)
    ends: Counter[tuple[str, str]] = field(default_factory=Counter)
    wrong: dict[int, list[str]] = field(default_factory=dict)

    def add(self, one: Launch, bed: Bed) -> None:
        """Count a launch that is over."""
        self.launches += 1
        self.with_instance += bool(bed.instances())
        self.instances += len(bed.instances())
        self.requests += len(bed.faulty.asked)
        self.most_minutes_over = max(self.most_minutes_over, one.minutes_over)
        self.faults += one.faults
        boots = one.boots
        self.failed_boots += Counter(with_log=len(boots.with_log), without_way_to_s3=len(boots.without_way))
        self.fates.update(one.fates)
        self.ends.update(one.ends)
        if one.wrong:
            self.wrong[one.seed] = one.wrong

    def document(self) -> dict[str, Any]:
        """As a benchmark prints it."""
        codes = {code: self.faults[code] for code in error_codes()}
        kills = {end for end, _ in self.ends if end.startswith("crash")}
        return {
            "launches": self.launches,
            "with_an_instance": self.with_instance,
            "instances": self.instances,
            "failed_boots": dict(self.failed_boots),
            "controllers": dict(self.fates),
            "requests": self.requests,
            "codes": len([one for one in codes.values() if one]),
            "fewest_of_a_code": min(codes.values()),
            "faults": dict(self.faults.most_common()),
            "kills": {
                end: {name: count for (told, name), count in self.ends.items() if told == end}
                for end in sorted(kills)
            },
            "most_minutes_over_budget": round(self.most_minutes_over, 3),
            "not_held": {str(seed): told for seed, told in self.wrong.items()},
            "fake_hours": round(self.fake_hours, 1),
            "seconds": round(self.seconds, 1),
        }


def series(bed: Bed, seeds: Iterable[int], *, stop_at_first: bool = False) -> Series:
    """The launches of these seeds."""
    found = looked(bed, "g4dn.xlarge", "g4dn.2xlarge", regions=("us-east-1", "us-east-2"))
    told, began = Series(), time.monotonic()
    for seed in seeds:
        bed.forget()
        one = Launch(bed, found, seed)
        one.run()
        told.add(one, bed)
        if stop_at_first and told.wrong:
            break
    told.seconds = time.monotonic() - began
    told.fake_hours = (bed.clock.now() - START).total_seconds() / 3600
    return told
