"""Decodes images, and converts samples to smaller JPEGs or to decoded pixels."""

from __future__ import annotations

import importlib.util
import io
import random
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from advisor.errors import DataError, MeasuringError, unknown_name
from advisor.extras import install_command
from advisor.sweeps.datasets.lmdb_images import SIDE
from advisor.sweeps.datasets.source import Sample, SampleKind, SampleSource

if TYPE_CHECKING:
    from PIL.Image import Image


PILLOW, SIMPLEJPEG, STORED = "pillow", "simplejpeg", "stored"
DECODERS = (PILLOW, SIMPLEJPEG)
_MEASURED_SAMPLES = 60
_ROUNDS = 5
# The limit above which Pillow refuses an image as a decompression bomb, which would exhaust the memory.
_MOST_PIXELS = 178_956_970
Decode = Callable[[bytes], np.ndarray]


def decoder(name: str) -> Decode:
    """A function from JPEG bytes to a uint8 array of (height, width, 3), red first. Raises `MeasuringError`
    if the package is missing; the function raises the package's errors."""
    if name not in DECODERS:
        raise unknown_name("decoder", name, DECODERS)
    if name == PILLOW:
        return _decode_by_pillow
    if not _installed(SIMPLEJPEG):
        raise MeasuringError(
            "no simplejpeg here", hint=f"use pillow, or install it: {install_command('formats')}"
        )
    return _decode_by_simplejpeg


def pixels_of(sample: Sample) -> np.ndarray:
    """The pixels of a sample with stored planes (blue, green, red): uint8, (3, height, width), red first."""
    planes = np.frombuffer(sample.content, np.uint8)
    return np.ascontiguousarray(planes.reshape(3, sample.height, sample.width)[::-1])


def decode_costs(source: SampleSource) -> dict[str, float]:
    """Seconds that one thread takes to decode a sample, by decoder (`stored` for samples of pixels).

    The median of five rounds, with decoders in turn, over up to 60 samples that are already in memory."""
    numbers = random.Random(0).sample(range(len(source)), min(_MEASURED_SAMPLES, len(source)))
    samples = {source.name(number): source.read(number) for number in numbers}
    names = [name for name, package in ((PILLOW, "PIL"), (SIMPLEJPEG, SIMPLEJPEG)) if _installed(package)]
    if next(iter(samples.values())).kind is SampleKind.PIXELS:
        ways: dict[str, Callable[[Sample], object]] = {STORED: pixels_of}
    else:
        ways = {name: partial(_decoded, decoder(name)) for name in names}
    rounds = [[_seconds_per_sample(way, samples) for way in ways.values()] for _ in range(_ROUNDS)]
    return dict(zip(ways, map(statistics.median, zip(*rounds, strict=True)), strict=True))


def _decoded(decode: Decode, sample: Sample) -> object:
    return decode(sample.content)


def _seconds_per_sample(way: Callable[[Sample], object], samples: dict[str, Sample]) -> float:
    start = time.perf_counter()
    for name, sample in samples.items():
        try:
            way(sample)
        except (OSError, SyntaxError, ValueError) as error:
            raise DataError(f"{name} cannot be decoded ({error})", hint="repair or remove it") from error
    return (time.perf_counter() - start) / len(samples)


def _decode_by_pillow(content: bytes) -> np.ndarray:
    from PIL import Image

    with Image.open(io.BytesIO(content)) as image:
        return np.asarray(image.convert("RGB"))


def _decode_by_simplejpeg(content: bytes) -> np.ndarray:
    import simplejpeg

    height, width, *_ = simplejpeg.decode_jpeg_header(content)
    if height * width > _MOST_PIXELS:
        raise ValueError(f"{width} x {height} pixels, more than {_MOST_PIXELS:,}")
    pixels: np.ndarray = simplejpeg.decode_jpeg(content, colorspace="RGB")
    return pixels


def _installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


class Change(Struct, frozen=True, kw_only=True):
    """The conversion of samples. `decoded`: to 256 x 256 pixels, like Caffe's create_imagenet.sh.
    `shorter_edge`: to a JPEG of that `quality` with at most so many pixels on its shorter edge, like MXNet's
    im2rec --resize. With neither, the bytes stay unchanged."""

    decoded: bool = False
    shorter_edge: int | None = None
    quality: int = 95

    @property
    def keeps_bytes(self) -> bool:
        """Return whether a JPEG sample passes through unchanged."""
        return not self.decoded and self.shorter_edge is None


def changed(source: SampleSource, index: int, change: Change) -> Sample:
    """The converted sample. Raises `DataError` with the sample's name if it is no image."""
    sample = source.read(index)
    if sample.kind is SampleKind.JPEG and change.keeps_bytes:
        if not sample.content.startswith(b"\xff\xd8"):
            raise DataError(f"{source.name(index)} is no JPEG image", hint="repair or remove it")
        return sample
    image = picture(source, index, sample)
    if change.decoded:
        planes = np.asarray(image.resize((SIDE, SIDE)))[:, :, ::-1].transpose(2, 0, 1)
        return Sample(SampleKind.PIXELS, planes.tobytes(), sample.label, SIDE, SIDE)
    edge, shorter, buffer = change.shorter_edge, min(image.size), io.BytesIO()
    if edge and shorter > edge:
        image = image.resize([round(side * edge / shorter) for side in image.size])
    image.save(buffer, "JPEG", quality=change.quality)
    return Sample(SampleKind.JPEG, buffer.getvalue(), sample.label)


def picture(source: SampleSource, index: int, sample: Sample) -> Image:
    """The decoded sample in RGB. Raises `DataError` with the sample's name if it is no image."""
    from PIL import Image, UnidentifiedImageError

    if sample.kind is SampleKind.PIXELS:
        return Image.fromarray(pixels_of(sample).transpose(1, 2, 0))
    try:
        with Image.open(io.BytesIO(sample.content)) as image:
            return image.convert("RGB")
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        # Pillow's message names the buffer that it read; a user knows the file.
        why = "its format is not known" if isinstance(error, UnidentifiedImageError) else str(error)
        why = why if sample.content else "it is empty"
        raise DataError(
            f"{source.name(index)} cannot be read as an image ({why})",
            hint="repair or remove it (advisor dataset check PATH names all such)",
        ) from error
