"""Tuning language models on the GPUs of one host: memory, and tokens a second with bounds."""

from advisor.models.language.finetuning.memory import TuningMemory, finetuning_memory
from advisor.models.language.finetuning.predictor import (
    FineTuningPredictor,
    Settled,
    TuningRates,
    bundled_finetuning_predictor,
    least_memory,
    unsupported,
)
from advisor.models.language.finetuning.tuning import Checkpointing, FineTuning, Sharding

__all__ = [
    "Checkpointing",
    "FineTuning",
    "FineTuningPredictor",
    "Settled",
    "Sharding",
    "TuningMemory",
    "TuningRates",
    "bundled_finetuning_predictor",
    "finetuning_memory",
    "least_memory",
    "unsupported",
]
