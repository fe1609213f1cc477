"""Decodes stored bytes to pixels with each decoder that is installed, and times it."""

from __future__ import annotations

import importlib.util
import io
import random
import statistics
import time
from collections.abc import Callable

import numpy as np

from advisor.errors import DataError, MeasuringError, unknown_name
from advisor.extras import install_command
from advisor.sweeps.datasets.source import Sample, SampleKind, SampleSource

PILLOW, SIMPLEJPEG, STORED = "pillow", "simplejpeg", "stored"
DECODERS = (PILLOW, SIMPLEJPEG)
_MEASURED_SAMPLES = 60
_ROUNDS = 5
# Where Pillow refuses an image as a decompression bomb; memory for it would be the trial's end.
_MOST_PIXELS = 178_956_970
Decode = Callable[[bytes], np.ndarray]


def decoder(name: str) -> Decode:
    """JPEG bytes -> uint8 array of (height, width, 3), red first. Raises `MeasuringError` when
    the package is missing; decoding itself raises what the package raises."""
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
    """Stored planes (blue, green, red) -> uint8 array of (3, height, width), red first."""
    planes = np.frombuffer(sample.content, np.uint8)
    return np.ascontiguousarray(planes.reshape(3, sample.height, sample.width)[::-1])


def decode_costs(source: SampleSource) -> dict[str, float]:
    """Seconds of one thread that a sample costs from its stored bytes to pixels, by decoder.

    `stored` where pixels are stored. Median of five rounds over up to 60 samples that are in
    memory, the decoders in turn; reading is not part of it.
    """
    numbers = random.Random(0).sample(range(len(source)), min(_MEASURED_SAMPLES, len(source)))
    samples = {source.name(number): source.read(number) for number in numbers}
    names = [name for name, package in ((PILLOW, "PIL"), (SIMPLEJPEG, SIMPLEJPEG)) if _installed(package)]
    if next(iter(samples.values())).kind is SampleKind.PIXELS:
        ways: dict[str, Callable[[Sample], object]] = {STORED: pixels_of}
    else:
        ways = {name: _of_content(decoder(name)) for name in names}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(_ROUNDS):
        for name, way in ways.items():
            seconds[name].append(_seconds_a_sample(way, samples))
    return {name: statistics.median(values) for name, values in seconds.items()}


def _of_content(decode: Decode) -> Callable[[Sample], object]:
    return lambda sample: decode(sample.content)


def _seconds_a_sample(way: Callable[[Sample], object], samples: dict[str, Sample]) -> float:
    start = time.perf_counter()
    for name, sample in samples.items():
        try:
            way(sample)
        except (OSError, SyntaxError, ValueError) as error:
            raise DataError(
                "{name} cannot be decoded ({error})", hint="repair or remove it", name=name, error=error
            ) from error
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
