"""Rates that follow a roofline of whole networks exactly: the truth is known."""

from __future__ import annotations

import itertools
import math
import random

from advisor.domain import Gpu, Task
from models.performance.datasheet.records import RateRow, Software
from models.performance.step_work import HALF, Stack, unit_of

# (milliseconds a sample at 1 TFLOPS, at 1 GB/s, launch milliseconds) of inference.
NETWORKS = {
    "small": (4.0, 100.0, 1.0),
    "wide": (20.0, 150.0, 2.0),
    "deep": (30.0, 900.0, 9.0),
    "large": (60.0, 600.0, 4.0),
}
CARDS = {
    "old": ("6.1", 11.0, 480.0, None),
    "first": ("7.0", 15.0, 900.0, 120.0),
    "second": ("7.5", 13.0, 600.0, 54.0),
    "third": ("7.5", 16.0, 670.0, 130.0),
    "fourth": ("8.6", 30.0, 800.0, 140.0),
    "fifth": ("8.0", 19.5, 1550.0, 310.0),
}


def gpu(name):
    """A data sheet of a made-up card."""
    capability, fp32, bandwidth, fp16 = CARDS[name]
    return Gpu(
        name=name,
        vendor="NVIDIA",
        architecture=capability[0],
        compute_capability=capability,
        memory_mib=16384,
        memory_gb_per_second=bandwidth,
        fp32_tflops=fp32,
        fp16_tflops=fp16,
    )


def true_rate(row, sheet):
    """Samples per second by the form itself; compiled software is a tenth faster."""
    compute, memory, launch = NETWORKS[row.network]
    passes = 3 if row.task == Task.TRAINING else 1
    unit = unit_of("conv_3x3", row.precision, sheet, Stack())
    reached = 0.5 if unit.name == "tensor" else 1.0
    narrow = 0.6 if row.precision == HALF else 1.0
    milliseconds = passes * (
        compute / (unit.tflops * reached)
        + memory * narrow / sheet.memory_gb_per_second
        + launch / row.batch_size
    )
    return 1000 / milliseconds * (1.1 if row.software.compiled else 1.0)


def rows(cards=tuple(CARDS), noise=0.02, compiled=(False, True)):
    """Every network, task, precision and kind of software on every card."""
    dice = random.Random(7)
    found = []
    for card, fused in itertools.product(cards, compiled):
        for network, task, precision in itertools.product(
            NETWORKS, (Task.INFERENCE, Task.TRAINING), ("fp32", HALF)
        ):
            row = RateRow(
                gpu_name=card,
                gpu=gpu(card),
                network=network,
                task=task,
                precision=precision,
                batch_size=64,
                software=Software(name="stack", compiled=fused),
                source=f"{card}/{fused}",
            )
            rate = true_rate(row, gpu(card)) * math.exp(dice.gauss(0, noise))
            found.append(row.measured(rate))
    return found
