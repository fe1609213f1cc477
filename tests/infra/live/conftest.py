"""Clouds as tests see them: credentials that mean nothing, and servers on loopback only."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from advisor.infra.live import session, web
from tests.infra.live import listed as lists
from tests.infra.live.recorded import Recorded, serving


def without_real_aws(patch: pytest.MonkeyPatch, folder: Path) -> None:
    """No profile of the person who runs the tests is read, and nothing is tried often."""
    patch.setenv("AWS_ACCESS_KEY_ID", "testing")
    patch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    patch.setenv("AWS_CONFIG_FILE", str(folder / "none"))
    patch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(folder / "none"))
    patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    patch.setattr(session, "ATTEMPTS", 2)


def point_at(patch: pytest.MonkeyPatch, aws: Recorded, folder: Path) -> None:
    without_real_aws(patch, folder)
    for service in ("PRICING", "SERVICE_QUOTAS", "EC2"):
        patch.setenv(f"AWS_ENDPOINT_URL_{service}", aws.url)


@pytest.fixture
def impatient(monkeypatch) -> None:
    """For AWS that hangs; a busy machine may answer later than that."""
    monkeypatch.setattr(session, "READ_SECONDS", 1)
    monkeypatch.setattr(web, "READ_SECONDS", 0.5)
    monkeypatch.setattr(web, "ATTEMPTS", 2)


@pytest.fixture(autouse=True)
def no_real_aws(monkeypatch, tmp_path) -> None:
    without_real_aws(monkeypatch, tmp_path)


@pytest.fixture
def recorded(monkeypatch, tmp_path) -> Iterator[Recorded]:
    with serving(Recorded()) as entry:
        point_at(monkeypatch, entry, tmp_path)
        yield entry


@pytest.fixture
def listed(monkeypatch) -> Iterator[lists.Listed]:
    """Azure's and Google's price lists; nobody waits long before trying again."""
    monkeypatch.setattr(web, "FIRST_PAUSE_SECONDS", 0.001)
    with lists.serving(lists.Listed()) as entry:
        yield entry
