"""The performance model: what throughput a workload reaches on given resources.

Predicting needs NumPy and the standard library only; what fits imports SciPy
when it is called.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from advisor.models.performance.model import PerformanceModel
    from advisor.models.performance.pacing import paced_gpu, published_step_seconds
    from advisor.models.performance.persistence import load_model, save_model

__all__ = ["PerformanceModel", "load_model", "paced_gpu", "published_step_seconds", "save_model"]

_ROOMS = {
    "PerformanceModel": "model",
    "load_model": "persistence",
    "save_model": "persistence",
    "paced_gpu": "pacing",
    "published_step_seconds": "pacing",
}


def __getattr__(name: str) -> Any:
    """Each when it is first named: language models need some rooms of this one, and no model."""
    if name not in _ROOMS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_ROOMS[name]}"), name)
