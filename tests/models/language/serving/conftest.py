"""What the tests of serving share: the predictor that ships, models and GPUs by short names."""

import pytest

from advisor.models.language.configs import LanguageModels, bundled_language_models
from advisor.models.language.serving import ServingPredictor, bundled_serving_predictor


@pytest.fixture(scope="session")
def predictor() -> ServingPredictor:
    """The one that answers."""
    return bundled_serving_predictor()


@pytest.fixture(scope="session")
def models() -> LanguageModels:
    """All bundled language models."""
    return bundled_language_models()
