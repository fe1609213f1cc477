"""An ImageNet-like folder of real JPEG files, cut from photographs that ship in wheels.

scikit-learn brings china.jpg and flower.jpg (CC BY 2.0), scikit-image the others (public
domain or CC0, see their data/README.txt). Crops are random and scaled to about 500x375; quality
is set so that file sizes are lognormal with a mean near ImageNet's 110 kB.
"""

from __future__ import annotations

import importlib.util
import io
import math
import os
import random
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.errors import MeasuringError

if TYPE_CHECKING:
    from PIL.Image import Image

# Large draws fall short where a smooth crop ends at quality 100, so more is drawn than the
# mean of 110 kB that comes out.
_DRAWN_MEAN_BYTES = 122_000
_LOG_SIGMA = 0.45
_PHOTOGRAPHS = (
    ("sklearn", "datasets/images/china.jpg"),
    ("sklearn", "datasets/images/flower.jpg"),
    ("skimage", "data/astronaut.png"),
    ("skimage", "data/chelsea.png"),
    ("skimage", "data/coffee.png"),
    ("skimage", "data/rocket.jpg"),
    ("skimage", "data/motorcycle_left.png"),
    ("skimage", "data/motorcycle_right.png"),
)
_QUALITIES = (40, 60, 75, 85, 90, 93, 95, 97, 98, 99, 100)
_SIDE_SPREAD = 0.1
_CROP_SHARE = (0.5, 1.0)


def write_samples(folder: Path, indices: range, seed: int) -> int:
    """Write one JPEG file an index into `folder`; returns the bytes written.

    A file's content depends on the seed and its index alone.
    """
    total = 0
    for index in indices:
        content = make_sample(random.Random(f"{seed}:{index}"))
        (folder / f"{index:07d}.jpg").write_bytes(content)
        total += len(content)
    return total


def make_sample(draw: random.Random) -> bytes:
    """One JPEG file: a random crop of a random photograph, near its drawn size."""
    number = draw.randrange(len(photographs()))
    crop = _random_crop(photographs()[number], draw)
    wanted = math.exp(draw.gauss(math.log(_DRAWN_MEAN_BYTES) - _LOG_SIGMA**2 / 2, _LOG_SIGMA))
    pixels = crop.size[0] * crop.size[1]
    # One trial encoding shows how this crop compares with its photograph, a second one hits.
    middle = 90
    ratio = len(_encode(crop, middle)) / pixels / _bytes_per_pixel(number)[middle]
    return _encode(crop, _quality_for(number, wanted / pixels / ratio))


@cache
def photographs() -> tuple[Image, ...]:
    """The photographs that are installed, decoded; `MeasuringError` when there is none."""
    from PIL import Image

    paths = [_installed(package, inner) for package, inner in _PHOTOGRAPHS]
    images = tuple(Image.open(path).convert("RGB") for path in paths if path)
    if not images:
        raise MeasuringError(
            "no photographs to make a data set from",
            hint="install scikit-image, or name a folder of your own with --data",
        )
    return images


def _installed(package: str, inner: str) -> Path | None:
    """The file inside a package, without importing the package."""
    spec = importlib.util.find_spec(package)
    for place in (spec.submodule_search_locations if spec else None) or ():
        path = Path(place) / inner
        if os.access(path, os.R_OK):
            return path
    return None


def _random_crop(photograph: Image, draw: random.Random) -> Image:
    width = round(500 * draw.uniform(1 - _SIDE_SPREAD, 1 + _SIDE_SPREAD))
    height = round(375 * draw.uniform(1 - _SIDE_SPREAD, 1 + _SIDE_SPREAD))
    scale = min(photograph.width / width, photograph.height / height)
    scale *= draw.uniform(*_CROP_SHARE)
    left = draw.uniform(0, photograph.width - width * scale)
    top = draw.uniform(0, photograph.height - height * scale)
    box = (left, top, left + width * scale, top + height * scale)
    return photograph.resize((width, height), box=box)


def _encode(image: Image, quality: int) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=quality)
    return buffer.getvalue()


@cache
def _bytes_per_pixel(number: int) -> dict[int, float]:
    """Bytes per pixel of a photograph's middle, by quality."""
    crop = _random_crop(photographs()[number], random.Random(number))
    pixels = crop.size[0] * crop.size[1]
    return {quality: len(_encode(crop, quality)) / pixels for quality in _QUALITIES}


def _quality_for(number: int, bytes_per_pixel: float) -> int:
    """The quality that comes nearest, between the measured ones by straight lines."""
    points = sorted(_bytes_per_pixel(number).items())
    for (low, below), (high, above) in pairwise(points):
        if bytes_per_pixel <= above:
            share = (bytes_per_pixel - below) / (above - below) if above > below else 1.0
            return round(low + max(0.0, share) * (high - low))
    return points[-1][0]
