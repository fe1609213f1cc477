"""What to install where a package is missing."""

from __future__ import annotations

from types import ModuleType

from advisor.errors import MeasuringError

_COMMAND = "pip install 'instance-sizing-advisor[sweep]'"


def missing(package: str) -> MeasuringError:
    """The error that names the extra which brings `package`."""
    return MeasuringError(f"{package} is not installed; {_COMMAND} brings it")


def load_torch() -> ModuleType:
    """torch; `MeasuringError` where it is missing or cannot be loaded."""
    try:
        import torch
    except ModuleNotFoundError as error:
        raise missing("torch") from error
    except (ImportError, OSError, RuntimeError) as error:
        raise MeasuringError(f"torch cannot be loaded ({error}); {_COMMAND} repairs it") from error
    return torch
