"""The process that decodes: pinned to one CPU, told when, answers with how many."""

from __future__ import annotations

import io
import os
import random
import signal
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection

_SIDE = 224
_CROP_SHARE = (0.08, 1.0)  # of the area, as RandomResizedCrop's default


def decode_on(cpu: int, orders: Connection) -> None:
    """Serve until the other end closes: first the images (JPEG bytes) in and `ready` out, each
    decoded once by then; after that seconds in, (images decoded, seconds taken) out.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends us, by closing the pipe
    os.sched_setaffinity(0, {cpu})
    draw = random.Random(cpu)
    try:
        images = orders.recv()
        for image in images:
            decode(image, draw)
        orders.send("ready")
        while True:
            orders.send(_decode_for(orders.recv(), images, draw))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return


def decode(content: bytes, draw: random.Random) -> object:
    """JPEG bytes -> uint8 array of 224x224x3: decode, crop at random, resize (bilinear)."""
    import numpy as np
    from PIL import Image

    with Image.open(io.BytesIO(content)) as image:
        pixels = image.convert("RGB")
    side = draw.uniform(*_CROP_SHARE) ** 0.5
    width, height = pixels.width * side, pixels.height * side
    left, top = draw.uniform(0, pixels.width - width), draw.uniform(0, pixels.height - height)
    box = (int(left), int(top), int(left + width), int(top + height))
    resized = pixels.crop(box).resize((_SIDE, _SIDE), Image.Resampling.BILINEAR)
    return np.asarray(resized)


def _decode_for(seconds: float, images: Sequence[bytes], draw: random.Random) -> tuple[int, float]:
    start = now = time.perf_counter()
    done = 0
    while now - start < seconds:
        decode(images[done % len(images)], draw)
        done += 1
        now = time.perf_counter()
    return done, now - start
