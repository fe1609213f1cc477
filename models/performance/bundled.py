"""The files of the performance model that ship, checked against their digests."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from advisor.errors import DataError

FOLDER = Path(__file__).parents[2] / "advisor" / "data" / "performance"
MANIFEST = "manifest.json"
MODEL = "default_model.json"
SEALED = (
    "gpus.csv", "networks.json", "memory.json", "memory_model.json", "scaling.json",
    "cpu_rates.json", MODEL,
)  # fmt: skip


def read_bundled(name: str) -> str:
    """The text of a bundled file; `DataError` when it is missing or not what was shipped."""
    try:
        expected = json.loads((FOLDER / MANIFEST).read_text())[name]
        content = (FOLDER / name).read_bytes()
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{FOLDER / name} cannot be read ({error}); {_way_out()}") from error
    if hashlib.sha256(content).hexdigest() != expected:
        raise DataError(f"{FOLDER / name} is damaged; {_way_out()}")
    return content.decode()


def seal() -> None:
    """Make the files as they are now the ones that ship."""
    digests = {name: hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() for name in SEALED}
    (FOLDER / MANIFEST).write_text(json.dumps(digests, indent=2) + "\n")


def _way_out() -> str:
    return "install the package again (in a checkout: python -m advisor.operations.fitting)"
