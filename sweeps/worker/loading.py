"""A torch data loader over stored images of any format, that never ends and never pauses.

Only the worker imports this file: it needs torch, torchvision and Pillow.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from advisor.domain import AUGMENTED, SERVED, SHUFFLED
from advisor.errors import DataError
from advisor.models.zoo.torchvision_operators import import_torchvision
from advisor.sweeps.datasets.source import Sample, SampleKind, SampleSource
from advisor.sweeps.datasets.transforming import PILLOW, decoder, picture, pixels_of
from advisor.sweeps.machine.processes import end_with_parent

_IMAGENET_MEAN = (0.485, 0.456, 0.406)
_IMAGENET_STD = (0.229, 0.224, 0.225)
# Far beyond the slowest batch that is of use: its disk no longer answers.
_LONGEST_BATCH_SECONDS = 300


class Images(Dataset[tuple[torch.Tensor, int]]):
    """Reads, decodes and transforms a stored sample: float tensors of (3, pixels, pixels).

    Augmented as for training, or resized and cropped at the centre as torchvision's weights are served:
    224 of 256 pixels. Pillow's images are cropped and resized by Pillow, as most pipelines do; other
    decoders' and stored pixels by torch, without a copy.
    """

    def __init__(
        self, source: SampleSource, pixels: int, decoder_name: str = PILLOW, transform: str = AUGMENTED
    ) -> None:
        import_torchvision()
        from torchvision.transforms import v2

        self._source = source
        self._decode = None if decoder_name == PILLOW else decoder(decoder_name)
        served = (v2.Resize(round(pixels * 256 / 224)), v2.CenterCrop(pixels))
        augmented = (v2.RandomResizedCrop(pixels), v2.RandomHorizontalFlip())
        self._transform = v2.Compose(
            [
                *(served if transform == SERVED else augmented),
                v2.PILToTensor(),
                v2.ToDtype(torch.float32, scale=True),
                v2.Normalize(_IMAGENET_MEAN, _IMAGENET_STD),
            ]
        )

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        sample: torch.Tensor = self._transform(self._image(index, self._source.read(index)))
        return sample, index % 1000

    def _image(self, index: int, sample: Sample) -> Any:
        if sample.kind is SampleKind.PIXELS:
            return torch.from_numpy(pixels_of(sample))
        if self._decode is None:
            return picture(self._source, index, sample)
        try:
            return torch.from_numpy(self._decode(sample.content)).permute(2, 0, 1)
        except (OSError, ValueError) as error:
            raise DataError(
                "{name} cannot be decoded ({error})", name=self._source.name(index), error=error
            ) from error


class EndlessOrder(Sampler[int]):
    """The numbers of all samples as a loader reads them, epoch after epoch, without an end between them:
    that would restart the loader's workers and stall the steps around it.

    Shuffled anew each epoch, or as they are stored, as Caffe reads an LMDB; of several processes every
    `of`-th from the `first` on, which no other one reads.
    """

    def __init__(self, samples: int, order: str = SHUFFLED, first: int = 0, of: int = 1) -> None:
        self._samples, self._order, self._first, self._of = samples, order, first, of

    def __iter__(self) -> Iterator[int]:
        return islice(self._endless(), self._first, None, self._of)

    def _endless(self) -> Iterator[int]:
        generator = torch.Generator().manual_seed(0)
        while True:
            if self._order == SHUFFLED:
                yield from torch.randperm(self._samples, generator=generator).tolist()
            else:
                yield from range(self._samples)


def make_loader(
    source: SampleSource,
    *,
    pixels: int,
    batch_size: int,
    workers: int,
    prefetch_factor: int,
    pin_memory: bool,
    decoder_name: str = PILLOW,
    transform: str = AUGMENTED,
    order: str = SHUFFLED,
    share: tuple[int, int] = (0, 1),
) -> DataLoader[Any]:
    """Batches of float32 images (batch, 3, pixels, pixels) and int64 labels, for ever.

    `transform` is `augmented` or `served`, `order` `shuffled` or `stored`; `share` is which process of how
    many this is.
    """
    return DataLoader(
        Images(source, pixels, decoder_name, transform),
        batch_size=batch_size,
        sampler=EndlessOrder(len(source), order, *share),
        num_workers=workers,
        prefetch_factor=prefetch_factor,
        pin_memory=pin_memory,
        worker_init_fn=lambda _worker: end_with_parent(),
        drop_last=True,
        timeout=_LONGEST_BATCH_SECONDS if workers else 0,
        # Children never touch CUDA, so a fork is safe; Python 3.14 would start them afresh.
        multiprocessing_context="fork" if workers else None,
    )
