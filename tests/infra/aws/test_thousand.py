"""However a thousand launches go wrong, nothing is left, nothing is double, no budget is passed.

All thousand, and the series that are broken on purpose: `python -m benchmarks.launches --json`.
"""

from __future__ import annotations

import pytest

from infra.aws.errors import known_codes
from tests.infra.aws.bed import Bed
from tests.infra.aws.series import series


def test_launches_with_faults_leave_nothing(bed: Bed) -> None:
    done = series(bed, range(40))
    assert done.wrong == {}
    assert done.with_instance > 20


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_thousand_launches_with_faults_of_every_code_leave_nothing(bed: Bed) -> None:
    done = series(bed, range(1_000, 2_000))
    assert done.wrong == {}
    assert set(known_codes()) <= set(done.faults)
