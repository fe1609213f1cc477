"""YOLOv3 (Redmon and Farhadi, arXiv:1804.02767): Darknet-53 and three heads; torch lives here."""

from __future__ import annotations

import torch
from torch import nn

ANCHORS_PER_CELL = 3
_RESIDUAL_BLOCKS = (1, 2, 8, 8, 4)


def _convolution(channels: int, filters: int, kernel: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels, filters, kernel, stride, padding=kernel // 2, bias=False),
        nn.BatchNorm2d(filters),
        nn.LeakyReLU(0.1, inplace=True),
    )


class _Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.narrow = _convolution(channels, channels // 2, 1)
        self.widen = _convolution(channels // 2, channels, 3)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = inputs + self.widen(self.narrow(inputs))
        return outputs


def _stage(channels: int, blocks: int) -> nn.Sequential:
    """Halves the resolution, doubles the channels, and refines."""
    halved = _convolution(channels, 2 * channels, 3, stride=2)
    return nn.Sequential(halved, *(_Residual(2 * channels) for _ in range(blocks)))


class _Head(nn.Module):
    """Five convolutions that the next finer head builds on, and a prediction beside them."""

    def __init__(self, channels: int, filters: int, values: int) -> None:
        super().__init__()
        self.trunk = nn.Sequential(
            _convolution(channels, filters, 1),
            _convolution(filters, 2 * filters, 3),
            _convolution(2 * filters, filters, 1),
            _convolution(filters, 2 * filters, 3),
            _convolution(2 * filters, filters, 1),
        )
        self.prediction = nn.Sequential(
            _convolution(filters, 2 * filters, 3),
            nn.Conv2d(2 * filters, ANCHORS_PER_CELL * values, 1),
        )
        self.values = values

    def forward(self, inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        trunk = self.trunk(inputs)
        cells = self.prediction(trunk).unflatten(1, (ANCHORS_PER_CELL, self.values))
        return trunk, cells.permute(0, 1, 3, 4, 2)


class _Finer(nn.Sequential):
    """To half the channels and twice the resolution."""

    def __init__(self, channels: int) -> None:
        super().__init__(
            _convolution(channels, channels // 2, 1), nn.Upsample(scale_factor=2, mode="nearest")
        )


class YoloV3(nn.Module):
    """Images (batch, 3, side, side), side a multiple of 32, to three grids of raw predictions.

    Each grid is (batch, 3 anchors, cells, cells, 5 + classes): x, y, width, height, objectness
    and classes before their sigmoids and exponentials, from the coarse grid (side / 32) to the
    fine one (side / 8). 61,949,149 parameters for 80 classes.
    """

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.stem = _convolution(3, 32, 3)
        self.stages = nn.ModuleList(
            _stage(32 * 2**index, blocks) for index, blocks in enumerate(_RESIDUAL_BLOCKS)
        )
        values = 5 + classes
        self.heads = nn.ModuleList(
            [_Head(1024, 512, values), _Head(768, 256, values), _Head(384, 128, values)]
        )
        self.finer = nn.ModuleList([_Finer(512), _Finer(256)])

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """See the class."""
        features = self.stem(images)
        levels = []
        for stage in self.stages:
            features = stage(features)
            levels.append(features)
        trunk, coarse = self.heads[0](levels[4])
        trunk, middle = self.heads[1](torch.cat([self.finer[0](trunk), levels[3]], dim=1))
        _, fine = self.heads[2](torch.cat([self.finer[1](trunk), levels[2]], dim=1))
        return coarse, middle, fine
