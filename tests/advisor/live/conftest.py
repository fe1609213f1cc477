"""AWS on loopback, as the tests of infra.live have it."""

from tests.infra.live.conftest import impatient, no_real_aws, recorded

__all__ = ["impatient", "no_real_aws", "recorded"]
