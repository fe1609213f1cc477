"""The performance model: what throughput a workload reaches on given resources.

Predicting needs NumPy and the standard library only; what fits imports SciPy when it is called."""

from advisor.models.performance.model import PerformanceModel
from advisor.models.performance.persistence import load_model, paced_gpu, published_step_seconds, save_model

__all__ = ["PerformanceModel", "load_model", "paced_gpu", "published_step_seconds", "save_model"]
