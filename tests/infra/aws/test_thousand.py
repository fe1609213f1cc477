"""However a thousand launches go wrong, nothing is left, nothing is double, no budget is passed."""

from __future__ import annotations

from collections import Counter

import pytest

from infra.aws.errors import known_codes
from tests.infra.aws.bed import Bed
from tests.infra.aws.builders import looked
from tests.infra.aws.chaos import Launch


def launches(bed: Bed, seeds: range) -> Counter[str]:
    """Each seed's sweep, one after the other in one account; returns which faults there were."""
    found = looked(bed, "g4dn.xlarge", "g4dn.2xlarge", regions=("us-east-1", "us-east-2"))
    seen: Counter[str] = Counter()
    for seed in seeds:
        bed.forget()
        one = Launch(bed, found, seed)
        one.run()
        one.reap_once()
        told = f"seed {seed}: {Counter(one.faults)}"
        assert bed.left() == [], told
        assert one.most_at_once <= 1, told
        assert one.spent_usd() <= one.most_usd() + 1e-6, told
        seen.update(one.faults)
        seen["launched"] += bool(bed.instances())
    return seen


def test_thirty_launches_with_faults_leave_nothing(bed: Bed) -> None:
    assert launches(bed, range(30))["launched"] > 10


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_thousand_launches_with_faults_of_every_code_leave_nothing(bed: Bed) -> None:
    seen = launches(bed, range(1_000, 2_000))
    assert set(known_codes()) <= set(seen)
    assert seen["launched"] > 400
