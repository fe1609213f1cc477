"""The small CNN that tutorials train on CIFAR-10; torch lives here."""

from __future__ import annotations

from torch import nn


def cifar10_cnn(classes: int) -> nn.Module:
    """Four 3x3 convolutions and two linear layers: images (batch, 3, 32, 32) to logits.

    Layer by layer the network of Keras's example cifar10_cnn.py: 1,250,858 parameters and 20.7
    million multiply-accumulates for ten classes.
    """
    return nn.Sequential(
        *_block(3, 32),
        *_block(32, 64),
        nn.Flatten(),
        nn.Linear(64 * 6 * 6, 512),
        nn.ReLU(inplace=True),
        nn.Dropout(0.5),
        nn.Linear(512, classes),
    )


def _block(channels: int, filters: int) -> list[nn.Module]:
    return [
        nn.Conv2d(channels, filters, 3, padding=1),
        nn.ReLU(inplace=True),
        nn.Conv2d(filters, filters, 3),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Dropout(0.25),
    ]
