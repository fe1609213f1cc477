"""The performance model: what throughput a workload reaches on given resources.

Predicting needs NumPy and the standard library only; what fits imports SciPy and
scikit-learn when it is called.
"""

from models.performance.model import PerformanceModel
from models.performance.pacing import paced_gpu, published_step_seconds
from models.performance.persistence import load_model, save_model

__all__ = ["PerformanceModel", "load_model", "paced_gpu", "published_step_seconds", "save_model"]
