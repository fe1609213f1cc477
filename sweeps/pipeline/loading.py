"""A torch data loader over a folder of JPEG files, that never ends and never pauses.

Only the worker imports this file: it needs torch, torchvision and Pillow.
"""

from __future__ import annotations

import ctypes
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset, Sampler

from models.zoo.torchvision_import import import_torchvision

_IMAGENET_MEAN = (0.485, 0.456, 0.406)
_IMAGENET_STD = (0.229, 0.224, 0.225)
_PR_SET_PDEATHSIG = 1


class ImageFiles(Dataset[tuple[torch.Tensor, int]]):
    """Decodes and augments one file a sample: float tensors of shape (3, pixels, pixels)."""

    def __init__(self, paths: Sequence[Path], pixels: int) -> None:
        import_torchvision()
        from torchvision.transforms import v2

        self._paths = [str(path) for path in paths]
        self._transform = v2.Compose(
            [
                v2.RandomResizedCrop(pixels),
                v2.RandomHorizontalFlip(),
                v2.PILToTensor(),
                v2.ToDtype(torch.float32, scale=True),
                v2.Normalize(_IMAGENET_MEAN, _IMAGENET_STD),
            ]
        )

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        with Image.open(self._paths[index]) as image:
            sample: torch.Tensor = self._transform(image.convert("RGB"))
        return sample, index % 1000


class EndlessShuffle(Sampler[int]):
    """All samples in a new random order, epoch after epoch, without an end between them.

    An epoch's end would restart the loader's workers and stall the steps around it.
    """

    def __init__(self, samples: int, seed: int = 0) -> None:
        self._samples = samples
        self._generator = torch.Generator().manual_seed(seed)

    def __iter__(self) -> Iterator[int]:
        while True:
            yield from torch.randperm(self._samples, generator=self._generator).tolist()


def make_loader(
    paths: Sequence[Path],
    *,
    pixels: int,
    batch_size: int,
    workers: int,
    prefetch_factor: int,
    pin_memory: bool,
) -> DataLoader[Any]:
    """Batches of float32 images (batch, 3, pixels, pixels) and int64 labels, for ever."""
    return DataLoader(
        ImageFiles(paths, pixels),
        batch_size=batch_size,
        sampler=EndlessShuffle(len(paths)),
        num_workers=workers,
        prefetch_factor=prefetch_factor,
        pin_memory=pin_memory,
        worker_init_fn=_die_with_parent,
        drop_last=True,
    )


def _die_with_parent(_worker: int) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
