"""`advisor measure` in four network namespaces, against the model: needs root, `ip` and `tc`."""

import pytest

from tests.host.nodes import NODES, NoNodes, compared, measured
from tests.sweeps.measure.test_network import validate

pytestmark = [pytest.mark.root, pytest.mark.timeout(900)]
GBIT_PER_SECOND = 1.0


@pytest.fixture(scope="module")
def document():
    try:
        return measured(GBIT_PER_SECOND, "googlenet", "T4")
    except NoNodes as error:
        pytest.skip(str(error))


def test_the_model_tells_an_all_reduce_between_nodes(document):
    """Four ranks, real TCP over links of 1 Gbit/s: within 10 % of the model's."""
    row = compared(document)
    assert (row["ranks"], row["nodes"], row["backend"]) == (NODES, NODES, "gloo")
    assert row["model_over_measured"] == pytest.approx(1.0, abs=0.1)


def test_what_was_measured_is_an_anchor_document(document):
    validate(document)
    (row,) = document["scaling"]
    assert row["accelerator"] == "emulated:T4"
    assert document["runs"] == []
    assert row["interface"] == "eth0"
    assert 0 < row["efficiency"] < 1
