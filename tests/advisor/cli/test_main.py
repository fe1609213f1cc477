"""What goes wrong is one line with the way out and an exit code; shells and `man` know the commands. A line
of tests/data/refusals.jsonl is a refusal: the words, the exit code, what is said in order and `never`, the
`files` it names, whether `aws` is there; a test's number is its line's."""

import errno
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from advisor.cli import main
from advisor.cli.main import COMMANDS
from advisor.cli.serve import allowed_code, allowed_data
from advisor.errors import DataError, NoIntervalError, NoOfferError, StalePriceError, UsageError
from advisor.extras import install_command
from advisor.sweeps.datasets.making import write_samples
from docs.site.manual import escaped, write_pages


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
    ("error", "code", "said"),
    [
        (UsageError("no"), 2, "no"),
        (NoOfferError("no"), 3, "no"),
        (NoIntervalError("no"), 4, "no"),
        (StalePriceError("no"), 5, "no"),
        (DataError("no"), 1, "no"),
        (ValueError("a defect"), 1, ""),
        (KeyboardInterrupt(), 130, ""),
        (OSError(errno.ENOSPC, "x"), 1, ""),
        (OSError(errno.ENOSPC, "x", "/mnt/out.json"), 1, "the device (/mnt/out.json); free some"),
        (ModuleNotFoundError("PIL", name="PIL"), 1, f"install it: {install_command('sweep')}"),
    ],
)
def test_each_error_has_its_exit_code_and_one_line_with_the_way_out(failing, ask, error, code, said):
    failing(error)
    got, out, err = ask("recommend")
    assert (got, out, len(err.strip().splitlines())) == (code, "", 1)
    assert said in err
    assert "Traceback" not in err


def test_debug_shows_where_an_error_came_from(failing, capsys, monkeypatch):
    monkeypatch.setenv("ADVISOR_DEBUG", "")  # so that the flag's effect ends with the test
    failing(UsageError("no"))
    main.run(["--debug", "recommend"])
    assert "Traceback" in capsys.readouterr().err


def test_help_lists_every_command_what_it_demands_and_what_people_look_for(shown):
    for words, options in {
        "": " ".join(main.COMMANDS),
        "sweep plan": "--networks --tasks --vcpus --memory --disks --accelerator --preset",
        "sweep run": "--networks --tasks --vcpus --memory --disks --on --dry-run",
        "recommend --task generation": "--engine --max-ttft-ms --traffic --confidence --max-e2e-s",
    }.items():
        said = shown(*words.split(), "--help")
        assert [option for option in options.split() if option not in said] == []


@pytest.mark.parametrize("output", ["table", "json"])
def test_a_reader_that_leaves_changes_no_exit_code(output):
    """`2>&1 | head -1` where nothing fits: it is told by the code all the same."""
    question = "--task inference --model googlenet --target-throughput 500 --max-price 0.01"
    command = [sys.executable, "-m", "advisor", "recommend", *question.split(), "-o", output]
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


TESTS = Path(__file__).parents[2]
REFUSALS = [json.loads(line) for line in (TESTS / "data/refusals.jsonl").read_text().splitlines()]
PLAN = "workloads:\n- {task: inference, model: googlenet, target_throughput: 500}\n"
FILES = {
    "team.yaml": PLAN,
    "plan.yaml": PLAN,
    "bad.yaml": "workloads:\n- {task: inference, model: no-such-net}\n",
    "empty.json": "{}",
    "runs.csv": "nodes,usd_per_hour,throughput\n1,0.1,50\n2,0.2,95\n4,0.4,180\n",
}


@pytest.fixture
def folder(refusal, tmp_path, monkeypatch):
    """The files and photographs that some of the commands name."""
    location = tmp_path / "here"
    location.mkdir()
    if "photos" in refusal["words"]:
        (location / "photos").mkdir()
        write_samples(location / "photos", range(6), seed=0)
    for name, text in (FILES | refusal.get("files", {})).items():
        (location / name).write_text(text)
    monkeypatch.chdir(location)
    return location


@pytest.mark.parametrize("refusal", REFUSALS, ids=range(1, len(REFUSALS) + 1))
def test_a_refusal_is_one_line_with_the_way_out(ask, folder, refusal, request):
    there = request.getfixturevalue("account") if refusal.get("aws") else None
    before = sorted(folder.rglob("*"))
    code, out, err = ask(*shlex.split(refusal["words"].replace("{root}", str(TESTS.parent))))
    assert (code, err.count("\n")) == (refusal["code"], refusal.get("lines", 1)), err
    assert all(line.startswith("advisor: ") for line in err.splitlines())
    said = [refusal["said"]] if isinstance(refusal["said"], str) else refusal["said"]
    assert re.search(".*".join(map(re.escape, said)), err), err
    assert "\x1b" not in err
    assert refusal.get("never", "\x1b") not in err
    assert out == "" or code == 3
    assert sorted(folder.rglob("*")) == before
    assert there is None or there.instances() == there.left() == []


# Each shell loads the completion that was installed and completes a line by its own function.
BASH = """
advisor completion install 2>/dev/null; . ~/.bashrc
COMP_WORDS=({words}); COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
_advisor_completion advisor; printf '%s\\n' "${{COMPREPLY[@]}}"
"""
FISH = "advisor completion install fish 2>/dev/null; complete --do-complete 'advisor {words}'"


@pytest.fixture
def advisor_on_path(tmp_path, monkeypatch):
    program = tmp_path / "advisor"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m advisor.cli.main "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[3]))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SHELL", "/bin/bash")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("advisor rec", {"recommend"}),
        ("advisor sweep st", {"status", "stop"}),
        ("advisor recommend --task tr", {"training"}),
        ("advisor recommend --accel", {"--accelerated-only"}),
        ("advisor recommend --model resnet50_clip_", {"resnet50_clip_gap"}),
        ("advisor memory --model Qwen/Qwen2.5-7B-", {"Qwen/Qwen2.5-7B-Instruct-AWQ"}),
        ("advisor predict --instance g4dn.x", {"g4dn.xlarge"}),
        ("advisor gpus --gpu A100-SXM4-8", {"A100-SXM4-80GB"}),
        ("advisor catalog show g4dn.2x", {"g4dn.2xlarge"}),
    ],
)
@pytest.mark.parametrize("shell", ["bash", "fish"])
@pytest.mark.usefixtures("advisor_on_path")
def test_a_shell_completes_commands_options_and_names(shell, words, offered):
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    own = words if shell == "bash" else words.removeprefix("advisor ")
    script = {"bash": BASH, "fish": FISH}[shell].format(words=own)
    done = subprocess.run([shell, "-c", script], capture_output=True, text=True, check=True)
    assert {line.split("\t")[0] for line in done.stdout.split("\n") if line} == offered


def test_every_command_has_a_page_without_warnings_and_no_text_is_taken_for_a_macro(tmp_path):
    assert escaped(".SH x-y\\z") == "\\&.SH x\\-y\\ez"
    assert escaped("'quoted'") == "\\&'quoted'"
    pages = write_pages(tmp_path)
    names = {page.stem for page in pages}
    assert {"advisor"} | {f"advisor-{name}" for name in COMMANDS} <= names
    assert "advisor-sweep-run" in names
    if shutil.which("groff") is None:
        pytest.skip("no groff here")
    for page in pages:
        printed = subprocess.run(
            ["groff", "-man", "-ww", "-K", "utf8", "-Tascii", "-P-cbou", page], capture_output=True, text=True
        )
        assert not printed.stderr
        assert "SYNOPSIS" in printed.stdout.replace("\b", "").replace("SSYYNNOOPPSSIISS", "SYNOPSIS")
