"""The networks that are measured.

`NETWORKS` and `network_info` need no torch; what builds or runs a network imports it. This
package needs only the standard library, torch, torchvision (timm for one network) and the
product's words, so it runs on a bare GPU box. docs/networks.md has the contract.
"""

from models.zoo.batches import synthetic_batch, synthetic_targets
from models.zoo.building import build
from models.zoo.networks import NETWORKS, Kind, NetworkInfo, network_info
from models.zoo.opening import Runnable, open_network
from models.zoo.own import OwnNetwork, load_own
from models.zoo.steps import forward, to_device, training_loss
from models.zoo.torchvision_import import import_torchvision

__all__ = [
    "NETWORKS",
    "Kind",
    "NetworkInfo",
    "OwnNetwork",
    "Runnable",
    "build",
    "forward",
    "import_torchvision",
    "load_own",
    "network_info",
    "open_network",
    "synthetic_batch",
    "synthetic_targets",
    "to_device",
    "training_loss",
]
