"""`advisor completion install`: the shell completes commands, options, networks, GPUs and instance types."""

from __future__ import annotations

import os
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from advisor.cli.questions import Name
from advisor.errors import UsageError

# Where each shell looks, or is told to look by a line in its settings.
_FOLDER = "~/.local/share/instance-sizing-advisor"
_FILES = {
    "bash": f"{_FOLDER}/completion.bash",
    "zsh": f"{_FOLDER}/completion.zsh",
    "fish": "~/.config/fish/completions/advisor.fish",
}
_SETTINGS = {"bash": "~/.bashrc", "zsh": "~/.zshrc"}
# zsh completes only after compinit, which a bare .zshrc does not call.
_BEFORE = {"zsh": "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }; "}


@click.group()
def completion() -> None:
    """Complete commands, options, networks, GPUs and instance types in your shell."""


@completion.command()
@click.argument("shell", required=False, type=Name("shell", tuple(_FILES)))
def install(shell: str | None) -> None:
    """Install it for SHELL: bash, zsh or fish (default: yours).

    It writes one file; for bash and zsh it also adds one line to ~/.bashrc or ~/.zshrc.
    """
    shell = shell or Path(os.environ.get("SHELL", "")).name
    if shell not in _FILES:
        raise UsageError("your shell is not known here", field="shell", hint="name bash, zsh or fish")
    script = get_completion_class(shell)
    assert script is not None
    file = Path(_FILES[shell]).expanduser()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(script(click.Group("advisor"), {}, "advisor", "_ADVISOR_COMPLETE").source())
    click.echo(f"wrote {file}", err=True)
    if settings := _SETTINGS.get(shell):
        _add_line(Path(settings).expanduser(), f'{_BEFORE.get(shell, "")}. "{file}"')
    click.echo("Open a new shell, then type `advisor rec` and press Tab.", err=True)


def _add_line(settings: Path, line: str) -> None:
    """At the end of the shell's settings, once."""
    before = settings.read_text(errors="surrogateescape") if settings.exists() else ""
    if line in before.splitlines():
        return
    with settings.open("a") as stream:
        stream.write(f"{'' if before.endswith(chr(10)) or not before else chr(10)}{line}\n")
    click.echo(f"added to {settings}: {line}", err=True)
