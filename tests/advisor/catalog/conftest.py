"""One catalogue for all tests of this folder."""

import pytest

from advisor.catalog import load_catalog


@pytest.fixture(scope="session")
def catalog():
    return load_catalog()
