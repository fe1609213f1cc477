"""What to install where a package is missing."""

from __future__ import annotations

from types import ModuleType

from advisor.errors import MeasuringError
from advisor.messages import Message

_COMMAND = "pip install 'instance-sizing-advisor[sweep]'"


def missing(package: str) -> MeasuringError:
    """The error that names the extra which brings `package`."""
    return MeasuringError(
        "{package} is not installed",
        hint=Message("{command} brings it", command=_COMMAND),
        package=package,
    )


def load_torch() -> ModuleType:
    """torch; `MeasuringError` where it is missing or cannot be loaded."""
    try:
        import torch
    except ModuleNotFoundError as error:
        raise missing("torch") from error
    except (ImportError, OSError, RuntimeError) as error:
        raise MeasuringError(
            "torch cannot be loaded ({error})",
            hint=Message("{command} repairs it", command=_COMMAND),
            error=error,
        ) from error
    return torch
