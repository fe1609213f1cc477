"""`advisor completion install`: shell completion of commands, options, networks, GPUs and instance types."""

from __future__ import annotations

import os
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from advisor.cli.questions import FieldType
from advisor.errors import UsageError
from advisor.questions.fields import Choice

# Fish finds its file by itself. Bash and zsh need a line in their rc file; zsh's first runs compinit.
_FILES = {
    "bash": "~/.local/share/instance-sizing-advisor/completion.bash",
    "zsh": "~/.local/share/instance-sizing-advisor/completion.zsh",
    "fish": "~/.config/fish/completions/advisor.fish",
}
_COMPINIT = "(( $+functions[compdef] )) || {{ autoload -Uz compinit && compinit; }}; "
_LINES = {"bash": ". {}", "zsh": f"{_COMPINIT}. {{}}"}


@click.group()
def completion() -> None:
    """Complete commands, options, networks, GPUs and instance types in your shell."""


@completion.command()
@click.argument("shell", required=False, type=FieldType(Choice("shell", _FILES), "shell"))
def install(shell: str | None) -> None:
    """Install it for SHELL: bash, zsh or fish (default: yours).

    It writes one file; for bash and zsh it also adds one line to ~/.bashrc or ~/.zshrc."""
    shell = shell or Path(os.environ.get("SHELL", "")).name
    script = get_completion_class(shell)
    if shell not in _FILES or script is None:
        raise UsageError("your shell is not known here", field="shell", hint="name bash, zsh or fish")
    file, settings = Path(_FILES[shell]).expanduser(), Path(f"~/.{shell}rc").expanduser()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(script(click.Group("advisor"), {}, "advisor", "_ADVISOR_COMPLETE").source())
    click.echo(f"wrote {file}", err=True)
    line = _LINES.get(shell, "").format(f"'{file}'")
    before = settings.read_text(errors="surrogateescape") if line and settings.exists() else ""
    if line not in before.splitlines() and line:
        with settings.open("a") as stream:
            stream.write(f"\n{line}\n" if before and not before.endswith("\n") else f"{line}\n")
        click.echo(f"added to {settings}: {line}", err=True)
    click.echo("Open a new shell, then type `advisor rec` and press Tab.", err=True)
