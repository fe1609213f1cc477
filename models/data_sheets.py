"""Data sheets of GPUs: the catalogue's table, and what its numbers tell of a card."""

from __future__ import annotations

import json
import math

from advisor.domain import Gpu
from advisor.models.bundled import FOLDER, MANIFEST, checked

# The one table of GPUs is the catalogue's, under the catalogue's seal.
GPUS = FOLDER.parent / "catalog" / "gpus.csv"
# Watts a multiprocessor and GHz of cards that hold their boost clock, by compute capability.
_WATTS_NEEDED = {
    "5": 3.3,
    "6": 3.2,
    "7.0": 2.2,
    "7.5": 2.2,
    "8.0": 1.7,
    "8.6": 2.5,
    "8.7": 2.5,
    "8.9": 1.4,
    "9": 2.1,
    "10": 3.5,
    "12": 1.4,
}


def read_data_sheets() -> str:
    """The text of the table of GPUs; raises as `read_bundled` does."""
    manifest = GPUS.parent / MANIFEST
    return checked(
        GPUS, lambda: json.loads(manifest.read_text())["files"]["catalog/gpus.csv"]["sha256"]
    ).decode()


def power_ratio(gpu: Gpu) -> float:
    """Log of the watts that a multiprocessor has at its clock, over what one of its architecture
    needs to hold it; 0 where it has enough, or nobody knows.

    Boost clocks of sheets are not held under load by cards of few watts: a T4 of 70 W does 25 of
    its 65 TFLOPS, an L4 of 72 W 65 of 121, an A10 of 150 W 54 of 125.
    """
    needed = _WATTS_NEEDED.get((gpu.compute_capability or "").partition(".")[0])
    needed = _WATTS_NEEDED.get(gpu.compute_capability or "", needed)
    if not (needed and gpu.watts and gpu.sms and gpu.boost_mhz):
        return 0.0
    return min(0.0, math.log(gpu.watts / (gpu.sms * gpu.boost_mhz / 1e3) / needed))
