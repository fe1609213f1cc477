"""YOLOv5 and YOLOv8 from their published structure, to count their operations; needs torch.

Written from papers and model tables (Jocher et al., 10.5281/zenodo.3908559; the stated sizes and parameters),
not from their code, which is AGPL: cross-stage partial blocks (Wang et al., arXiv:1911.11929), a pyramid down
and up again (Liu et al., arXiv:1803.01534), and three heads. They output raw predictions: boxes are not
decoded."""

from __future__ import annotations

import math

import torch
from torch import nn

# Depth and width of each size relative to the second largest, and the widest layer of YOLOv8.
V5_SIZES = {"n": (1 / 3, 0.25), "s": (1 / 3, 0.5), "m": (2 / 3, 0.75), "l": (1.0, 1.0), "x": (4 / 3, 1.25)}
V8_SIZES = {
    "n": (1 / 3, 0.25, 1024),
    "s": (1 / 3, 0.5, 1024),
    "m": (2 / 3, 0.75, 768),
    "l": (1.0, 1.0, 512),
    "x": (1.0, 1.25, 512),
}
_CLASSES = 80
_ANCHORS = 3
_DISTANCES = 16


class _Convolution(nn.Sequential):
    def __init__(self, inputs: int, outputs: int, kernel: int = 1, stride: int = 1) -> None:
        padding = 2 if kernel == 6 else kernel // 2
        super().__init__(
            nn.Conv2d(inputs, outputs, kernel, stride, padding, bias=False),
            nn.BatchNorm2d(outputs, eps=1e-3, momentum=0.03),
            nn.SiLU(inplace=True),
        )


class _Bottleneck(nn.Module):
    def __init__(self, width: int, first_kernel: int, *, adds: bool) -> None:
        super().__init__()
        self.first = _Convolution(width, width, first_kernel)
        self.second = _Convolution(width, width, 3)
        self.adds = adds

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = self.second(self.first(inputs))
        return inputs + outputs if self.adds else outputs


class _ThreeConvolutions(nn.Module):
    """YOLOv5's block: half the channels go through bottlenecks, half bypass them."""

    def __init__(self, inputs: int, outputs: int, depth: int, *, adds: bool = True) -> None:
        super().__init__()
        half = outputs // 2
        self.through = _Convolution(inputs, half)
        self.past = _Convolution(inputs, half)
        self.blocks = nn.Sequential(*(_Bottleneck(half, 1, adds=adds) for _ in range(depth)))
        self.join = _Convolution(2 * half, outputs)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        through = self.blocks(self.through(inputs))
        joined: torch.Tensor = self.join(torch.cat([through, self.past(inputs)], 1))
        return joined


class _TwoConvolutions(nn.Module):
    """YOLOv8's block: the outputs of all bottlenecks are concatenated."""

    def __init__(self, inputs: int, outputs: int, depth: int, *, adds: bool = True) -> None:
        super().__init__()
        half = outputs // 2
        self.spread = _Convolution(inputs, 2 * half)
        self.blocks = nn.ModuleList(_Bottleneck(half, 3, adds=adds) for _ in range(depth))
        self.join = _Convolution((2 + depth) * half, outputs)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        parts = list(self.spread(inputs).chunk(2, 1))
        for block in self.blocks:
            parts.append(block(parts[-1]))
        joined: torch.Tensor = self.join(torch.cat(parts, 1))
        return joined


class _Pooling(nn.Module):
    """Three poolings in sequence, whose outputs are concatenated."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.narrow = _Convolution(width, width // 2)
        self.join = _Convolution(2 * width, width)
        self.pool = nn.MaxPool2d(5, 1, 2)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        parts = [self.narrow(inputs)]
        for _ in range(3):
            parts.append(self.pool(parts[-1]))
        joined: torch.Tensor = self.join(torch.cat(parts, 1))
        return joined


class _Decoupled(nn.Module):
    """YOLOv8's head of a level: separate branches for distances to the box's sides and for classes."""

    def __init__(self, inputs: int, finest: int) -> None:
        super().__init__()
        sides, classes = max(16, finest // 4, 4 * _DISTANCES), max(finest, min(_CLASSES, 100))
        self.sides = nn.Sequential(
            _Convolution(inputs, sides, 3), _Convolution(sides, sides, 3), nn.Conv2d(sides, 4 * _DISTANCES, 1)
        )
        self.classes = nn.Sequential(
            _Convolution(inputs, classes, 3),
            _Convolution(classes, classes, 3),
            nn.Conv2d(classes, _CLASSES, 1),
        )

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.sides(inputs), self.classes(inputs)], 1)


class Yolo(nn.Module):
    """Images (batch, 3, side, side), with side a multiple of 32, to three grids of raw predictions."""

    def __init__(self, version: int, size: str) -> None:
        super().__init__()
        self.eight = version == 8
        depth, share, widest = V8_SIZES[size] if self.eight else (*V5_SIZES[size], 1024)

        def wide(channels: int) -> int:
            return math.ceil(min(channels, widest) * share / 8) * 8

        def deep(blocks: int) -> int:
            return max(1, round(blocks * depth))

        stem, *widths = [wide(channels) for channels in (64, 128, 256, 512, 1024)]
        block = _TwoConvolutions if self.eight else _ThreeConvolutions
        depths = [deep(blocks) for blocks in ((3, 6, 6, 3) if self.eight else (3, 6, 9, 3))]
        self.stem = _Convolution(3, stem, 3 if self.eight else 6, 2)
        before = [stem, *widths]
        self.stages = nn.ModuleList(
            nn.Sequential(_Convolution(low, high, 3, 2), block(high, high, blocks))
            for low, high, blocks in zip(before, widths, depths, strict=False)
        )
        _, fine, middle, coarse = widths
        self.pooling = _Pooling(coarse)
        self.up = nn.Upsample(scale_factor=2)
        join = deep(3)
        narrow = not self.eight
        self.to_middle = _Convolution(coarse, middle) if narrow else nn.Identity()
        self.to_fine = _Convolution(middle, fine) if narrow else nn.Identity()
        coarse_up, middle_up = (middle, fine) if narrow else (coarse, middle)
        self.middle_up = block(coarse_up + middle, middle, join, adds=False)
        self.fine_up = block(middle_up + fine, fine, join, adds=False)
        self.fine_down = _Convolution(fine, fine, 3, 2)
        self.middle_down = block(fine + middle_up, middle, join, adds=False)
        self.middle_again = _Convolution(middle, middle, 3, 2)
        self.coarse_down = block(middle + coarse_up, coarse, join, adds=False)
        self.heads = nn.ModuleList(self._head(width, fine) for width in (fine, middle, coarse))

    def _head(self, width: int, finest: int) -> nn.Module:
        if self.eight:
            return _Decoupled(width, finest)
        return nn.Conv2d(width, _ANCHORS * (5 + _CLASSES), 1)

    def forward(self, images: torch.Tensor) -> list[torch.Tensor]:
        """Images to three grids of raw predictions."""
        features, levels = self.stem(images), []
        for stage in self.stages:
            features = stage(features)
            levels.append(features)
        _, fine, middle, coarse = levels
        coarse = self.to_middle(self.pooling(coarse))
        middle = self.to_fine(self.middle_up(torch.cat([self.up(coarse), middle], 1)))
        fine = self.fine_up(torch.cat([self.up(middle), fine], 1))
        lower = self.middle_down(torch.cat([self.fine_down(fine), middle], 1))
        lowest = self.coarse_down(torch.cat([self.middle_again(lower), coarse], 1))
        return [head(level) for head, level in zip(self.heads, (fine, lower, lowest), strict=True)]
