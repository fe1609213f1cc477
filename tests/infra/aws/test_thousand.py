"""However a thousand launches go wrong, nothing is left, nothing is double, no budget is passed."""

from __future__ import annotations

import pytest

from advisor.infra.aws.errors import error_codes
from tests.infra.aws.bed import Bed
from tests.infra.aws.series import series


@pytest.mark.night
def test_launches_with_faults_of_every_code_leave_nothing(bed: Bed) -> None:
    done = series(bed, range(2_000, 2_130))
    assert done.wrong == {}
    assert done.with_instance > 50
    assert set(error_codes()) <= set(done.faults)
