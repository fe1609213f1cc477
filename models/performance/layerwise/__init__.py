"""Step times of networks that were never measured, layer by layer, from captured operations.

Parameters of each GPU, precision and task are fitted to the networks that were measured there;
they are logarithms with Gaussian priors, so a few networks are enough to begin with.
"""

from models.performance.layerwise.fitting import fit_parameters
from models.performance.layerwise.form import PRIOR, Prior, Steps, steps_of
from models.performance.layerwise.model import LayerwiseModel, MeasuredStep, Setting
from models.performance.layerwise.operations import (
    NetworkKey,
    OperationTable,
    StepOperations,
    read_operations,
    step_operations,
)

__all__ = [
    "PRIOR",
    "LayerwiseModel",
    "MeasuredStep",
    "NetworkKey",
    "OperationTable",
    "Prior",
    "Setting",
    "StepOperations",
    "Steps",
    "fit_parameters",
    "read_operations",
    "step_operations",
    "steps_of",
]
