"""What a user would write by hand: a DataLoader over JPEG files in front of a GPU.

`python -m benchmarks.rates.plain_loop FOLDER BATCH_SIZE WORKERS STEP_SECONDS SECONDS` prints samples per
second. The GPU is emulated: it takes STEP_SECONDS a step, and two steps are in flight."""

from __future__ import annotations

import sys
import time
from collections import deque
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset, RandomSampler

from advisor.models.zoo.torchvision_operators import import_torchvision

_PREPARED = 10


class Photographs(Dataset[tuple[Any, int]]):
    """The files of a folder, resized, cropped to 224 pixels at their centre and normalised."""

    def __init__(self, folder: Path) -> None:
        import_torchvision()
        from torchvision.transforms import v2

        self.files = sorted(folder.rglob("*.jpg"))
        self.transform = v2.Compose(
            [
                v2.Resize(256),
                v2.CenterCrop(224),
                v2.PILToTensor(),
                v2.ToDtype(torch.float32, scale=True),
                v2.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
            ]
        )

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        with Image.open(self.files[index]) as image:
            return self.transform(image.convert("RGB")), index % 1000


def samples_per_second(
    folder: Path, batch_size: int, workers: int, step_seconds: float, seconds: float
) -> float:
    """Of the loop, after the batches that were prepared ahead."""
    photographs = Photographs(folder)
    for file in photographs.files:
        file.read_bytes()
    sampler = RandomSampler(photographs, replacement=True, num_samples=10**7)
    loader = DataLoader(photographs, batch_size, sampler=sampler, num_workers=workers)
    free_at, in_flight = time.perf_counter(), deque[float]()
    begun, steps = 0.0, -_PREPARED
    for _images, _labels in loader:
        free_at = max(free_at, time.perf_counter()) + step_seconds
        in_flight.append(free_at)
        if len(in_flight) > 2:
            time.sleep(max(0.0, in_flight.popleft() - time.perf_counter()))
        steps += 1
        now = time.perf_counter()
        if steps == 0:
            begun = now
        if steps > 0 and now - begun >= seconds:
            return steps * batch_size / (now - begun)
    raise AssertionError("the sampler ended")


if __name__ == "__main__":
    place, *numbers = sys.argv[1:]
    batch, processes, step, length = numbers
    print(samples_per_second(Path(place), int(batch), int(processes), float(step), float(length)))
