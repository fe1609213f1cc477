"""The zoo answers without torch, builds what it names, and refuses what it does not know."""

import subprocess
import sys

import pytest

from advisor.errors import UsageError
from advisor.models.zoo.building import build
from advisor.models.zoo.networks import NETWORKS, network_info


def test_the_list_of_networks_needs_no_torch() -> None:
    """A command that only names networks must not pay for torch."""
    code = "import sys, advisor.models.zoo; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_unknown_network_is_refused_with_a_near_name() -> None:
    """A misspelt name tells the one that was meant."""
    with pytest.raises(UsageError, match="did you mean googlenet"):
        build("gogglenet")


def test_every_network_is_listed_under_its_own_name() -> None:
    """The key and the record agree, so either may be shown."""
    assert all(network_info(name).name == name for name in NETWORKS)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(n for n, i in NETWORKS.items() if i.classes == 1000))
def test_every_imagenet_network_maps_its_input_to_a_thousand_logits(name: str) -> None:
    """The declared input size is one the network accepts, in training mode too."""
    torch = pytest.importorskip("torch")
    side = NETWORKS[name].input_pixels
    with torch.device("meta"):
        network = build(name).train()
        logits = network(torch.empty(2, 3, side, side))
    assert logits.shape == (2, 1000)
