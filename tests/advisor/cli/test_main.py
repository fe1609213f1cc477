"""Whatever goes wrong, a user sees one line that helps, and a script sees the right exit code; and what the
service's clients may name."""

import errno
import shlex
import subprocess
import sys

import click
import pytest

from advisor.cli import main
from advisor.cli.serve import allowed_code, allowed_data
from advisor.errors import DataError, NoIntervalError, NoOfferError, StalePriceError, UsageError
from advisor.extras import install_command


@pytest.fixture
def failing(monkeypatch):
    """Make `advisor recommend` raise what the test hands over."""

    def install(error):
        @click.command()
        def recommend():
            raise error

        monkeypatch.setattr(main.LateGroup, "get_command", lambda *_: recommend)

    return install


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("no"), 2),
        (NoOfferError("no"), 3),
        (NoIntervalError("no"), 4),
        (StalePriceError("no"), 5),
        (DataError("no"), 1),
        (ValueError("a defect"), 1),
        (KeyboardInterrupt(), 130),
        (OSError(errno.ENOSPC, "x"), 1),
    ],
)
def test_each_error_has_its_exit_code_and_one_line(failing, capsys, error, code):
    failing(error)
    assert main.run(["recommend"]) == code
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.strip().splitlines()) == 1
    assert "Traceback" not in said.err


def test_a_missing_extra_is_named(failing, said):
    failing(ModuleNotFoundError("No module named 'PIL'", name="PIL"))
    assert f"install it: {install_command('sweep')}" in said("recommend", code=1)


def test_a_full_disk_is_told_with_the_way_out(failing, capsys):
    failing(OSError(errno.ENOSPC, "x", "/mnt/out.json"))
    main.run(["recommend"])
    assert "no space left on the device (/mnt/out.json); free some" in capsys.readouterr().err


def test_debug_shows_where_an_error_came_from(failing, capsys, monkeypatch):
    monkeypatch.setenv("ADVISOR_DEBUG", "")  # so that the flag's effect ends with the test
    failing(UsageError("no"))
    main.run(["--debug", "recommend"])
    assert "Traceback" in capsys.readouterr().err


def test_help_lists_every_command_without_importing_one(shown):
    said = shown("--help")
    assert all(name in said for name in main.COMMANDS)


@pytest.mark.parametrize("output", ["table", "json"])
def test_a_reader_that_leaves_changes_no_exit_code(output):
    """`2>&1 | head -1` where nothing fits: it is told by the code all the same."""
    command = [
        sys.executable,
        *shlex.split("-m advisor recommend --task inference --model googlenet --target-throughput"),
        *shlex.split("500 --max-price 0.01 -o"),
        output,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as child:
        assert child.stdout is not None
        child.stdout.readline()
        child.stdout.close()
        assert child.wait(timeout=120) == 3


def test_names_stand_for_whole_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "words.txt").write_text("a b c\n")
    (tmp_path / "net.py").write_text("")
    assert allowed_data("ptb=words.txt") == ("ptb", str(tmp_path / "words.txt"))
    assert allowed_code("mine=net.py:build") == ("mine", str(tmp_path / "net.py:build"))
