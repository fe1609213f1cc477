"""How large the networks of the zoo are, as computed once by `python -m models.zoo.facts`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from advisor.errors import DataError
from models.zoo.networks import network_info

PATH = Path(__file__).parents[2] / "advisor" / "data" / "performance" / "networks.json"


@dataclass(frozen=True, slots=True)
class Size:
    """Trained values, and multiply-accumulates of the forward pass of one sample (not row)."""

    parameters: int
    macs_per_sample: float


def known_size(name: str) -> Size:
    """Parameters and work of a network of the zoo, without torch.

    Raises `UsageError` for an unknown network, `DataError` when the bundled file is damaged.
    """
    info = network_info(name)
    try:
        size = _sizes(PATH)[info.name]
        return Size(int(size["parameters"]), float(size["macs_per_sample"]))
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"{PATH} has no size of {name} ({error}); install the package again, or rebuild the "
            "file with python -m models.zoo.facts"
        ) from error


@cache
def _sizes(path: Path) -> dict[str, dict[str, float]]:
    sizes: dict[str, dict[str, float]] = json.loads(path.read_text())["sizes"]
    return sizes
