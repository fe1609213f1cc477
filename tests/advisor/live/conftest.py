"""Clouds on loopback, as the tests of advisor.infra.live have it, and a command that asks them."""

import pytest

from advisor.cli.main import run
from tests.infra.live.conftest import impatient, listed, no_real_aws, recorded

__all__ = ["impatient", "listed", "no_real_aws", "recorded"]


@pytest.fixture
def ask(capsys):
    """Exit code, standard output and standard error of a command."""

    def command(*arguments: str) -> tuple[int, str, str]:
        code = run(list(arguments))
        return code, *capsys.readouterr()

    return command
