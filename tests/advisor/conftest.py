"""Commands as a user calls them, in this process, and an AWS account of moto's."""

import json
from importlib.resources import files

import pytest

from advisor.answers.reporting.saved import first_fault
from advisor.cli.main import run

# The files that describe the documents, by what those call themselves.
SCHEMAS = {
    name: f"advisor.{file.name.removesuffix('.schema.json')}/1"
    for file in (files("advisor.render") / "schemas").iterdir()
    for of in [json.loads(file.read_text())["properties"]["schema"]]
    for name in of.get("enum", [of.get("const")])
}


@pytest.fixture
def ask(capsys):
    """Run a command; returns (exit code, stdout, stderr)."""

    def command(*arguments):
        code = run(list(map(str, arguments)))
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return command


@pytest.fixture
def shown(ask):
    """Run a command that ends with `code`, where `quiet` without a word on stderr; returns its stdout."""

    def command(*arguments, code=0, quiet=False):
        got, out, err = ask(*arguments)
        assert got == code, err
        assert not (quiet and err)
        return out

    return command


@pytest.fixture
def stderr(ask):
    """Run a command that ends with `code`; returns its stderr."""

    def command(*arguments, code=2):
        got, _, err = ask(*arguments)
        assert got == code, err
        return err

    return command


@pytest.fixture
def answer(shown):
    """Run a command with `-o json`; returns the document, which keeps the schema that it names."""

    def command(*arguments, code=0, quiet=False):
        out = shown(*arguments, "-o", "json", code=code, quiet=quiet)
        document = json.loads(out, parse_constant=_refuse)
        if schema := SCHEMAS.get(document["schema"]):
            assert first_fault(document, schema) is None
        return document

    return command


@pytest.fixture
def account(monkeypatch, tmp_path):
    """moto behind EC2's own ways."""
    from tests.infra.aws.bed import account_here

    with account_here(monkeypatch, tmp_path) as bed:
        yield bed


def _refuse(constant):
    raise AssertionError(f"{constant} is no JSON")
