"""Converts one sample: unchanged, to a smaller JPEG, or to decoded pixels."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from advisor.errors import DataError
from advisor.sweeps.datasets.lmdb_images import SIDE
from advisor.sweeps.datasets.source import Sample, SampleKind, SampleSource

if TYPE_CHECKING:
    from PIL.Image import Image


class Change(Struct, frozen=True, kw_only=True):
    """The conversion of samples. `decoded`: to 256 x 256 pixels, as create_imagenet.sh of Caffe does.
    `shorter_edge`: JPEG again, at most that many pixels on its shorter edge, in that `quality`, as im2rec
    of MXNet does with --resize. Neither: bytes stay as they are."""

    decoded: bool = False
    shorter_edge: int | None = None
    quality: int = 95

    @property
    def keeps_bytes(self) -> bool:
        """Whether a JPEG sample passes through unchanged."""
        return not self.decoded and self.shorter_edge is None


def changed(source: SampleSource, index: int, change: Change) -> Sample:
    """The sample as it will be stored. Raises `DataError`, naming it, for no image."""
    sample = source.read(index)
    if sample.kind is SampleKind.JPEG and change.keeps_bytes:
        if not sample.content.startswith(b"\xff\xd8"):
            raise DataError("{name} is no JPEG image", hint="repair or remove it", name=source.name(index))
        return sample
    image = picture(source, index, sample)
    if change.decoded:
        planes = np.asarray(image.resize((SIDE, SIDE)))[:, :, ::-1].transpose(2, 0, 1)
        return Sample(SampleKind.PIXELS, planes.tobytes(), sample.label, SIDE, SIDE)
    return Sample(SampleKind.JPEG, _jpeg(image, change), sample.label)


def picture(source: SampleSource, index: int, sample: Sample) -> Image:
    """The decoded sample in RGB. Raises `DataError`, naming it, for no image."""
    from PIL import Image

    if sample.kind is SampleKind.PIXELS:
        shape = (3, sample.height, sample.width)
        planes = np.frombuffer(sample.content, np.uint8).reshape(shape)
        return Image.fromarray(np.ascontiguousarray(planes[::-1].transpose(1, 2, 0)))
    try:
        with Image.open(io.BytesIO(sample.content)) as image:
            return image.convert("RGB")
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise DataError(
            "{name} cannot be read as an image ({why})",
            hint="repair or remove it (advisor dataset check PATH names all such)",
            name=source.name(index),
            why=_why(sample, error),
        ) from error


def _why(sample: Sample, error: Exception) -> str:
    """Pillow names the memory that it read from; a user knows the file."""
    from PIL import UnidentifiedImageError

    if not sample.content:
        return "it is empty"
    return "its format is not known" if isinstance(error, UnidentifiedImageError) else str(error)


def _jpeg(image: Image, change: Change) -> bytes:
    edge, shorter = change.shorter_edge, min(image.size)
    if edge and shorter > edge:
        image = image.resize([round(side * edge / shorter) for side in image.size])
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=change.quality)
    return buffer.getvalue()
