"""The service in this process, asked as Starlette's test client asks."""

import pytest

from advisor.service.guard import origins


@pytest.fixture(autouse=True)
def _known_as_the_test_client_says(monkeypatch):
    monkeypatch.setattr(origins, "LOCAL_NAMES", origins.LOCAL_NAMES | {"testserver"})
