"""A network of a user's own that tests write into a file: small, and at fault where they say."""

_NETWORK = """
import os, time, torch
INPUT_SHAPE = (3, 8, 8)
class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(192, 4)
    def forward(self, images):
        if {when}:
            {fault}
        return self.layer(images.flatten(1))
def build():
    return Network()
"""


def own_network(folder, fault="pass", when="len(images) == 2"):
    """Its reference; `fault` is a statement of its forward pass on `images`."""
    (folder / "net.py").write_text(_NETWORK.format(when=when, fault=fault))
    return f"{folder}/net.py:build"
