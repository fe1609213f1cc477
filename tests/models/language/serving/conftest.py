"""The predictor that ships."""

import pytest

from advisor.models.language.serving import bundled_serving_predictor


@pytest.fixture(scope="session")
def predictor():
    return bundled_serving_predictor()
