"""The rate at which a language model is served: a physical form with fitted effects, and bounds."""

from advisor.models.language.serving.bundle import bundled_serving_predictor
from advisor.models.language.serving.predictor import ServingPredictor
from advisor.models.language.serving.rates import BINDS, ServingRates

__all__ = ["BINDS", "ServingPredictor", "ServingRates", "bundled_serving_predictor"]
