"""Two made-up GPUs: each class of operations has its own ratio, launches bound small steps."""

from __future__ import annotations

import numpy as np

from models.performance.transfer.across_gpus import TrainingPair
from models.performance.transfer.cells import Cells, Profiles
from models.performance.transfer.operations import CLASSES
from models.performance.transfer.sheets import Sheet

SLOW = Sheet(
    name="slow", fp32_tflops=4.0, memory_gb_per_second=200.0, clock_ghz=1.0, generation=5.0
)
FAST = Sheet(
    name="fast", fp32_tflops=16.0, memory_gb_per_second=800.0, clock_ghz=1.5, generation=7.0
)
RATIOS = {"convolution": 0.2, "matrix_product": 0.3, "normalisation": 0.28, "activation": 0.26}


def pair_of_gpus(networks: int = 8, seed: int = 0) -> TrainingPair:
    """`networks` made-up networks at three image sizes and three batches on both GPUs."""
    generator = np.random.default_rng(seed)
    names, pixels, batches, here, there, idle = [], [], [], [], [], []
    for number in range(networks):
        per_pixel = generator.dirichlet(np.ones(len(RATIOS))) * generator.uniform(1, 5) * 1e-8
        launches = generator.uniform(0.002, 0.02)
        for px in (64.0, 128.0, 224.0):
            for batch in (16.0, 64.0, 256.0):
                seconds = np.zeros(len(CLASSES))
                for (name, _), share in zip(RATIOS.items(), per_pixel, strict=True):
                    seconds[CLASSES.index(name)] = share * px**2 * batch
                names.append(f"net{number}")
                pixels.append(px)
                batches.append(batch)
                here.append(seconds)
                there.append(seconds * [RATIOS.get(name, 1.0) for name in CLASSES])
                idle.append(launches)
    gaps = np.array(idle)
    anchor, target = np.array(here), np.array(there)
    return TrainingPair(
        anchor=Cells(
            network=np.array(names),
            image_px=np.array(pixels),
            batch=np.array(batches),
            seconds=np.hypot(anchor.sum(axis=1), gaps),
            profiles=Profiles(operations=anchor, idle=gaps),
        ),
        seconds=np.hypot(target.sum(axis=1), gaps),
        profiles=Profiles(operations=target, idle=gaps),
        sheets=(SLOW, FAST),
    )
