"""A metadata service for each test."""

import pytest

from tests.infra.aws.guest.imds import serving


@pytest.fixture
def service():
    with serving() as one:
        yield one
