"""What shells and `man` know of the commands: out of click's own declarations."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from advisor.cli.main import COMMANDS
from advisor.cli.manual import escaped, write_pages

# Each shell loads the completion as documented and completes a line by its own function.
BASH = """
eval "$(_ADVISOR_COMPLETE=bash_source advisor)"
COMP_WORDS=({words}); COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
_advisor_completion advisor; printf '%s\\n' "${{COMPREPLY[@]}}"
"""
FISH = "_ADVISOR_COMPLETE=fish_source advisor | source; complete --do-complete 'advisor {words}'"
# zsh completes on a terminal alone, which its own module gives it; `ready` is typed in parts, as
# the terminal echoes what is typed.
ZSH = """
zmodload zsh/zpty
zpty terminal zsh -f -i
zpty -w terminal 'autoload -Uz compinit; compinit -D; unsetopt beep'
zpty -w terminal 'eval "$(_ADVISOR_COMPLETE=zsh_source advisor)"; echo rea""dy'
zpty -r terminal line '*ready*'
zpty -n -w terminal $'{words}\t'
zpty -r terminal line '*{offered}*'
print -r -- "$line"
zpty -d terminal
"""


@pytest.fixture
def advisor_on_path(tmp_path, monkeypatch):
    program = tmp_path / "advisor"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m advisor.cli.main "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[3]))


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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("advisor rec", "recommend"),
        ("advisor recommend --task tr", "training"),
        ("advisor recommend --accel", "accelerated-only"),
    ],
)
@pytest.mark.usefixtures("advisor_on_path")
def test_zsh_completes_what_is_typed(words, offered):
    """It waits for the word on the line: what is not completed ends by the time that is given."""
    if shutil.which("zsh") is None:
        pytest.skip("no zsh here")
    script = ZSH.format(words=words, offered=offered)
    done = subprocess.run(
        ["zsh", "-f", "-c", script], capture_output=True, text=True, check=True, timeout=200
    )
    assert offered in done.stdout


def test_every_command_has_a_page_without_warnings(tmp_path):
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


def test_no_text_is_taken_for_a_macro():
    assert escaped(".SH x-y\\z") == "\\&.SH x\\-y\\ez"
    assert escaped("'quoted'") == "\\&'quoted'"
