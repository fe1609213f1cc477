"""Makes a trial's batches from stored photographs, a text or memory; controls the page cache. Needs torch."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count, cycle, islice
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from advisor.domain import AUGMENTED, SERVED, SHUFFLED, Task, Trial
from advisor.errors import DataError
from advisor.models.zoo.networks import Kind
from advisor.models.zoo.opening import Runnable
from advisor.models.zoo.torchvision_operators import import_torchvision
from advisor.sweeps.datasets.opening import TEXT, read_corpus
from advisor.sweeps.datasets.source import Sample, SampleKind, SampleSource
from advisor.sweeps.datasets.transforming import PILLOW, decoder, picture, pixels_of
from advisor.sweeps.machine.processes import end_with_parent
from advisor.sweeps.worker.engine import TorchEngine

_IMAGENET_MEAN = (0.485, 0.456, 0.406)
_IMAGENET_STD = (0.229, 0.224, 0.225)
# After this time without a batch, its disk is assumed dead.
_LONGEST_BATCH_SECONDS = 300


class Images(Dataset[tuple[torch.Tensor, int]]):
    """Reads, decodes and transforms stored samples to float tensors of (3, pixels, pixels).

    Images are augmented as for training, or, as for serving torchvision's weights, resized and cropped at the
    centre (224 of 256 pixels). Pillow crops and resizes the images that it decodes, as in most pipelines;
    torch does so for other decoders and stored pixels, without a copy."""

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
            raise DataError(f"{self._source.name(index)} cannot be decoded ({error})") from error


class EndlessOrder(Sampler[int]):
    """An endless sampler: the numbers of all samples, epoch after epoch. An end between epochs would restart
    the loader's workers and stall the steps around it.

    The order is shuffled in each epoch, or that of storage, as Caffe reads an LMDB. With several processes
    each reads every `processes`-th sample from a different `first` on."""

    def __init__(self, samples: int, order: str = SHUFFLED, first: int = 0, processes: int = 1) -> None:
        self._samples, self._order, self._first, self._processes = samples, order, first, processes

    def __iter__(self) -> Iterator[int]:
        return islice(self._endless(), self._first, None, self._processes)

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
    """A loader of endless batches: float32 images (batch, 3, pixels, pixels) and int64 labels.

    `transform` is `augmented` or `served`, `order` `shuffled` or `stored`; `share` is (rank, number of
    processes)."""
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
        # Workers never use CUDA, so a fork is safe; the default of Python 3.14 would start new interpreters.
        multiprocessing_context="fork" if workers else None,
    )


_SYS_CACHESTAT = 451  # Linux 6.5 and later, the same number on all architectures
_RANGE = ctypes.c_uint64 * 2  # offset, length
_CACHESTAT = ctypes.c_uint64 * 5  # cached, dirty, written back, evicted, recently evicted
_CHUNK_BYTES = 1 << 20


def evict(paths: Iterable[Path]) -> None:
    """Drop the files from the page cache; pages not yet written to disk stay."""
    for path in paths:
        with _opened(path) as file:
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)


def fill(paths: Iterable[Path], limit_bytes: float) -> int:
    """Read files in the given order up to `limit_bytes`; returns the bytes read.

    A file may be the whole data set (a shard, a database), so it may stop inside a file. The kernel charges
    pages to the reader's memory cgroup, so each trial must fill the cache itself."""
    total = 0
    for path in paths:
        if total >= limit_bytes:
            break
        with _opened(path) as file:
            while total < limit_bytes and (chunk := os.read(file, _CHUNK_BYTES)):
                total += len(chunk)
    return total


def cached_share(paths: Sequence[Path]) -> float | None:
    """The share of the files' pages that are in the page cache; None if the kernel cannot report it."""
    page = os.sysconf("SC_PAGE_SIZE")
    cached, pages = 0, 0
    libc, whole, answer = ctypes.CDLL(None, use_errno=True), _RANGE(0, 0), _CACHESTAT()
    for path in paths:
        with _opened(path) as file:
            if libc.syscall(_SYS_CACHESTAT, file, ctypes.byref(whole), ctypes.byref(answer), 0):
                return None
            cached += answer[0]
            pages += -(-os.fstat(file).st_size // page)
    return cached / pages if pages else None


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    """Open a file inside the block. Raises `DataError` with its name, even for an error while it is read."""
    try:
        file = os.open(path, os.O_RDONLY)
        try:
            yield file
        finally:
            os.close(file)
    except OSError as error:
        raise DataError(f"cannot read '{path}': {error.strerror}") from error


Batches = Generator[tuple[Any, Any]]  # endless (inputs, targets); `close` ends the loader's processes


def photograph_batches(
    trial: Trial,
    opened: Runnable,
    source: SampleSource,
    batch_size: int | None = None,
    share: tuple[int, int] = (0, 1),
) -> Batches:
    """Batches (images, targets) of a trial's stored images, from a loader whose processes start now.

    Targets are the loader's class numbers if the network learns from these. Other targets (boxes, masks, a
    user's network) are made once, from the first batch, so that they cost the input pipeline nothing. `share`
    is (rank, number of processes)."""
    plan = trial.plan
    loader = make_loader(
        source,
        pixels=opened.info.input_pixels,
        batch_size=batch_size or trial.workload.batch_size,
        workers=plan["loader_workers"],
        prefetch_factor=plan["prefetch_factor"],
        pin_memory=trial.accelerator.is_gpu,
        decoder_name=plan.get("decoder", PILLOW),
        transform=plan.get("transform", AUGMENTED),
        order=plan.get("order", SHUFFLED),
        share=share,
    )
    labelled = opened.info.kind is Kind.IMAGE and not opened.fingerprint
    own_targets = trial.workload.task is Task.TRAINING and not labelled
    return with_targets(iter(loader), opened if own_targets else None)


def with_targets(loaded: Iterator[Any], opened: Runnable | None) -> Batches:
    """The loaded batches; if a network is given, with synthetic targets that are made once."""
    made = None
    for images, targets in loaded:
        if opened and made is None:
            made = opened.synthetic_targets(images)
        yield images, made if opened else targets


def _text_batches(trial: Trial, opened: Runnable) -> Batches:
    """Batches of a text: word numbers (batch, unroll), and those of the following words.

    As in Zaremba et al. 2014 for the Penn Treebank, the text is cut into one equal part for each row of a
    batch, and a row advances through its part by `unroll` words a step. All numbers are in memory, so that
    steps load nothing."""
    rows, (unroll,) = trial.workload.batch_size, opened.info.input_shape
    tokens = torch.from_numpy(read_corpus(Path(trial.dataset_path), opened.info.classes).tokens)
    columns = len(tokens) // rows
    if columns <= unroll:
        raise DataError(
            f"'{Path(trial.dataset_path)}' has {len(tokens):,} words, and a batch of {rows} needs "
            f"more than {rows * unroll:,}",
            hint="name a longer text, or ask for a smaller batch",
        )
    table = tokens[: rows * columns].view(rows, columns)
    places = cycle(range(0, columns - unroll, unroll))
    return ((table[:, place : place + unroll], table[:, place + 1 : place + unroll + 1]) for place in places)


def device_batch(trial: Trial, engine: TorchEngine) -> Batches:
    """One batch on the device, repeated endlessly: measures the network without an input pipeline."""
    batch = engine.batch(trial.workload.batch_size)
    return (batch for _ in count())


def open_batches(
    trial: Trial, opened: Runnable, source: SampleSource | None, share: tuple[int, int] = (0, 1)
) -> Batches:
    """The batches of a trial's main run, in host memory."""
    if source is not None:
        return photograph_batches(trial, opened, source, share=share)
    if trial.workload.dataset.storage_format == TEXT:
        return _text_batches(trial, opened)
    # CIFAR-10 is stored decoded: reading it costs next to nothing, like making a batch.
    return (opened.synthetic_batch(trial.workload.batch_size) for _ in count())
