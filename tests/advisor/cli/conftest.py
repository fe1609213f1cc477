"""Commands as a user calls them, in this process."""

import pytest

from advisor.cli.main import run


@pytest.fixture
def ask(capsys):
    """Run a command; returns (exit code, stdout, stderr)."""

    def command(*arguments):
        code = run(list(arguments))
        said = capsys.readouterr()
        return code, said.out, said.err

    return command
