"""An own network for the advisor: --model docs/examples/own_network.py:build

Only `build` is needed. What follows it is optional; without it the input is an image of
3 x 224 x 224 and the output logits of (batch, classes), trained by cross entropy.
"""

import torch
from torch import nn

INPUT_SHAPE = (3, 96, 96)


class TwoHeads(nn.Module):
    """Says what is in the picture, and how far away it is."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 32, 3, stride=2, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.Conv2d(32, 64, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )
        self.what = nn.Linear(64, 10)
        self.distance = nn.Linear(64, 1)

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Images to logits of ten things, and to distances."""
        features = self.features(images)
        return self.what(features), self.distance(features).squeeze(1)


def build() -> nn.Module:
    """Needed: the network, on the CPU, weights as they come."""
    return TwoHeads()


def example_batch(batch_size: int) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Optional: inputs and targets on the CPU, when noise of INPUT_SHAPE will not do."""
    images = torch.rand(batch_size, *INPUT_SHAPE)
    return images, {"what": torch.randint(10, (batch_size,)), "distance": torch.rand(batch_size)}


def loss(outputs: tuple[torch.Tensor, torch.Tensor], targets: dict[str, torch.Tensor]) -> torch.Tensor:
    """Optional: one number to train by, when cross entropy of the outputs will not do."""
    what, distance = outputs
    far = nn.functional.mse_loss(distance, targets["distance"])
    return nn.functional.cross_entropy(what, targets["what"]) + far
