"""AWS as tests see it: credentials that mean nothing, and servers on loopback only."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from infra.live import session
from tests.infra.live.recorded import Recorded, serving


@pytest.fixture(autouse=True)
def no_real_aws(monkeypatch, tmp_path) -> None:
    """No profile of the person who runs the tests is read, and nothing waits long."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setattr(session, "ATTEMPTS", 2)
    monkeypatch.setattr(session, "READ_SECONDS", 1)


@pytest.fixture
def recorded(monkeypatch) -> Iterator[Recorded]:
    """The Price List and Service Quotas services, from recorded answers."""
    with serving(Recorded()) as one:
        monkeypatch.setenv("AWS_ENDPOINT_URL_PRICING", one.url)
        monkeypatch.setenv("AWS_ENDPOINT_URL_SERVICE_QUOTAS", one.url)
        yield one
