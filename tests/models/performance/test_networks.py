"""Facts of networks are made of the network table, one network at a time."""

import pytest

from advisor.domain import Task, Workload
from advisor.errors import UsageError
from advisor.models.performance.networks import bundled_networks
from tests.popular import POPULAR


@pytest.mark.parametrize("name", POPULAR)
def test_every_network_tells_its_sizes_and_steps(name):
    facts = bundled_networks()[name]
    assert facts.parameters > 0
    assert facts.gmacs > 0
    assert Task.INFERENCE in facts.kernels


def test_another_input_is_told_as_scaled_or_captured():
    table = bundled_networks()
    asked = Workload(network="resnet50", task=Task.INFERENCE, batch_size=1, input="3x448x448")
    assert table.of(asked).gmacs == pytest.approx(4 * table["resnet50"].gmacs, rel=0.02)


def test_an_unknown_name_is_refused_with_near_names():
    with pytest.raises(UsageError, match="did you mean"):
        bundled_networks()["resnet51"]
