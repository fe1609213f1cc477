"""AWS on loopback, as the tests of infra.live have it."""

from tests.infra.live.conftest import no_real_aws, recorded

__all__ = ["no_real_aws", "recorded"]
