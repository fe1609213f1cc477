"""A bed for each test; nothing of the person who runs it is read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.infra.aws.bed import Bed, prepared
from tests.infra.live.conftest import without_real_aws


@pytest.fixture
def bed(monkeypatch, tmp_path) -> Iterator[Bed]:
    without_real_aws(monkeypatch, tmp_path)
    with prepared(monkeypatch) as one:
        yield one
