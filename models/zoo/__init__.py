"""The networks that are measured.

`NETWORKS` and `network_info` need no torch; `build` imports it. This package needs only the
standard library, torch, torchvision and the product's words, so it runs on a bare GPU box.
"""

from models.zoo.building import build
from models.zoo.networks import NETWORKS, NetworkInfo, network_info
from models.zoo.torchvision_import import import_torchvision

__all__ = ["NETWORKS", "NetworkInfo", "build", "import_torchvision", "network_info"]
