"""Clouds on loopback, as the tests of advisor.infra.live have it."""

from tests.infra.live.conftest import impatient, listed, no_real_aws, recorded

__all__ = ["impatient", "listed", "no_real_aws", "recorded"]
