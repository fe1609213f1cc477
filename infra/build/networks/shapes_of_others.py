"""Common networks that no library here has, by their papers, to count what they compute.

Torch lives here. They are not trained and not checked against results: shapes alone matter.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import nn


class _Twice(nn.Sequential):
    def __init__(self, inputs: int, outputs: int, dimensions: int) -> None:
        convolution: Any = (nn.Conv2d, nn.Conv3d)[dimensions - 2]
        norm: Any = (nn.BatchNorm2d, nn.InstanceNorm3d)[dimensions - 2]
        layers: list[nn.Module] = []
        for before in (inputs, outputs):
            layers += [convolution(before, outputs, 3, padding=1, bias=False), norm(outputs)]
            layers.append(nn.ReLU(inplace=True))
        super().__init__(*layers)


class _Unet(nn.Module):
    def __init__(self, channels: int, widths: tuple[int, ...], classes: int, dimensions: int):
        super().__init__()
        convolution: Any = (nn.Conv2d, nn.Conv3d)[dimensions - 2]
        transposed: Any = (nn.ConvTranspose2d, nn.ConvTranspose3d)[dimensions - 2]
        pool: Any = (nn.MaxPool2d, nn.MaxPool3d)[dimensions - 2]
        self.pool = pool(2)
        steps = list(pairwise((channels, *widths)))
        self.down = nn.ModuleList(_Twice(low, high, dimensions) for low, high in steps)
        up = [(high, low) for low, high in pairwise(widths)][::-1]
        self.widen = nn.ModuleList(transposed(high, low, 2, 2) for high, low in up)
        self.up = nn.ModuleList(_Twice(2 * low, low, dimensions) for _, low in up)
        self.head = convolution(widths[0], classes, 1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Images to a map of classes of their size."""
        kept: list[torch.Tensor] = []
        features = images
        for place, block in enumerate(self.down):
            features = block(self.pool(features) if place else features)
            kept.append(features)
        for widen, block, beside in zip(self.widen, self.up, kept[-2::-1], strict=True):
            features = block(torch.cat([beside, widen(features)], 1))
        classes: torch.Tensor = self.head(features)
        return classes


class UNet(_Unet):
    """Ronneberger et al., arXiv:1505.04597, padded and with batch normalisation: 31 M."""

    def __init__(self) -> None:
        super().__init__(3, (64, 128, 256, 512, 1024), 2, 2)


class UNet3d(_Unet):
    """The 3D U-Net of MLPerf and nnU-Net: 32 to 320 channels, instance normalisation."""

    def __init__(self) -> None:
        super().__init__(1, (32, 64, 128, 256, 320, 320), 3, 3)


class Dlrm(nn.Module):
    """Naumov et al., arXiv:1906.00091, with MLPerf's layers; rows of tables as for Kaggle."""

    pairs: torch.Tensor

    def __init__(self, rows: int = 1_300_000, width: int = 128) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(rows, width, sparse=True) for _ in range(26))
        self.bottom = _layers(13, 512, 256, width)
        pairs = 27 * 26 // 2
        self.top = _layers(pairs + width, 1024, 1024, 512, 256)
        self.head = nn.Linear(256, 1)
        self.pairs: torch.Tensor
        self.register_buffer("pairs", torch.zeros(pairs, dtype=torch.int64))

    def forward(self, numbers: torch.Tensor, categories: torch.Tensor) -> torch.Tensor:
        """13 numbers and 26 categories a sample to a score."""
        dense = self.bottom(numbers)
        result = [table(categories[:, place]) for place, table in enumerate(self.tables)]
        vectors = torch.stack([dense, *result], 1)
        products = torch.bmm(vectors, vectors.transpose(1, 2)).flatten(1)
        chosen = products.index_select(1, self.pairs)
        score: torch.Tensor = self.head(self.top(torch.cat([dense, chosen], 1)))
        return score


class Ncf(nn.Module):
    """Neural collaborative filtering (arXiv:1708.05031) on MovieLens-20M."""

    def __init__(self, users: int = 138_493, items: int = 26_744) -> None:
        super().__init__()
        self.tables = nn.ModuleList(
            nn.Embedding(rows, width) for width in (64, 128) for rows in (users, items)
        )
        self.layers = _layers(256, 256, 128, 64)
        self.head = nn.Linear(128, 1)

    def forward(self, user: torch.Tensor, item: torch.Tensor) -> torch.Tensor:
        """Numbers of users and items (batch) to a score."""
        entry, two, three, four = (
            table(place) for table, place in zip(self.tables, (user, item) * 2, strict=True)
        )
        mixed = self.layers(torch.cat([three, four], -1))
        score: torch.Tensor = self.head(torch.cat([entry * two, mixed], -1))
        return score


class Gnmt(nn.Module):
    """Wu et al., arXiv:1609.08144, in the four layers of NVIDIA's GNMT v2; words at once."""

    def __init__(self, vocabulary: int = 32_320, width: int = 1024) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.both_ways = nn.LSTM(width, width, bidirectional=True, batch_first=True)
        self.first = nn.LSTM(2 * width, width, batch_first=True)
        self.encoder = nn.ModuleList(nn.LSTM(width, width, batch_first=True) for _ in range(2))
        self.start = nn.LSTM(width, width, batch_first=True)
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        self.energy = nn.Linear(width, 1)
        self.decoder = nn.ModuleList(nn.LSTM(2 * width, width, batch_first=True) for _ in range(3))
        self.dropout = nn.Dropout(0.2)
        self.classifier = nn.Linear(width, vocabulary)

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Words (batch, n) and (batch, m) to logits (batch, m, words)."""
        memory, _ = self.both_ways(self.embedding(source))
        memory, _ = self.first(self.dropout(memory))
        for layer in self.encoder:
            memory = memory + layer(self.dropout(memory))[0]
        hidden, _ = self.start(self.embedding(target))
        summed = self.query(hidden)[:, :, None] + self.key(memory)[:, None]
        scores = self.energy(torch.tanh(summed))[..., 0]
        attended = torch.bmm(torch.softmax(scores, -1), memory)
        for place, layer in enumerate(self.decoder):
            mixed = layer(self.dropout(torch.cat([hidden, attended], -1)))[0]
            hidden = mixed + hidden if place else mixed
        logits: torch.Tensor = self.classifier(hidden)
        return logits


class DeepSpeech2(nn.Module):
    """Amodei et al., arXiv:1512.02595, with five two-way LSTMs of 1024, on 8 s of sound."""

    def __init__(self, hidden: int = 1024, letters: int = 29) -> None:
        super().__init__()
        self.sound = nn.Sequential(
            nn.Conv2d(1, 32, (41, 11), (2, 2), (20, 5), bias=False),
            nn.BatchNorm2d(32),
            nn.Hardtanh(0, 20, inplace=True),
            nn.Conv2d(32, 32, (21, 11), (2, 1), (10, 5), bias=False),
            nn.BatchNorm2d(32),
            nn.Hardtanh(0, 20, inplace=True),
        )
        self.layers = nn.ModuleList(
            nn.LSTM(2 * hidden if place else 32 * 41, hidden, bidirectional=True, batch_first=True)
            for place in range(5)
        )
        self.head = nn.Linear(2 * hidden, letters)

    def forward(self, spectrogram: torch.Tensor) -> torch.Tensor:
        """(batch, 1, 161, frames) to letters (batch, frames / 2, letters)."""
        hidden = self.sound(spectrogram).flatten(1, 2).transpose(1, 2)
        for layer in self.layers:
            hidden, _ = layer(hidden)
        letters: torch.Tensor = self.head(hidden)
        return letters


def resnet18_cifar() -> nn.Module:
    """ResNet-18 as it is used on 32 pixels: a 3 x 3 stem and no pooling after it."""
    from advisor.models.zoo.building import build_torchvision

    network: Any = build_torchvision("resnet18")
    network.conv1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
    network.maxpool = nn.Identity()
    network.fc = nn.Linear(512, 10)
    module: nn.Module = network
    return module


def _layers(*widths: int) -> nn.Sequential:
    parts: list[nn.Module] = []
    for low, high in pairwise(widths):
        parts += [nn.Linear(low, high), nn.ReLU()]
    return nn.Sequential(*parts)
