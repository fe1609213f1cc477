"""However a thousand launches go wrong, nothing is left, nothing is double, no budget is passed."""

from collections import Counter

import pytest

from advisor.infra.aws.errors import error_codes
from tests.infra.aws.bed import Bed
from tests.infra.aws.builders import looked
from tests.infra.aws.chaos import Launch


@pytest.mark.night
def test_launches_with_faults_of_every_code_leave_nothing(bed: Bed) -> None:
    """One after the other in one account; what did not hold is told seed by seed."""
    found = looked(bed, "g4dn.xlarge", "g4dn.2xlarge", regions=("us-east-1", "us-east-2"))
    wrong, with_instance, faults = {}, 0, Counter[str]()
    for seed in range(2_000, 2_130):
        bed.forget()
        one = Launch(bed, found, seed)
        one.run()
        with_instance += bool(bed.instances())
        faults += one.faults
        wrong |= {seed: one.wrong} if one.wrong else {}
    assert wrong == {}
    assert with_instance > 50
    assert set(error_codes()) <= set(faults)
