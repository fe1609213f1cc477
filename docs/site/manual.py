"""`python -m docs.site.manual FOLDER`: man pages of all commands, out of what `--help` prints."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import click

from advisor.cli.main import cli
from advisor.cli.questions import EVERY_OPTION

# click: the lines of this paragraph stay as they are.
_AS_IT_IS = "\b\n"


class ManFormatter(click.HelpFormatter):
    """Writes in the macros of man(7) what click would write on a terminal."""

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        """The synopsis; what follows it up to the first heading is the description."""
        self.write(f".SH SYNOPSIS\n.B {escaped(prog)}\n{escaped(args)}\n.SH DESCRIPTION\n")

    def write_text(self, text: str) -> None:
        """Paragraphs, with their lines where those stay."""
        for paragraph in text.split("\n\n"):
            if paragraph.startswith(_AS_IT_IS):
                lines = paragraph.removeprefix(_AS_IT_IS).splitlines()
                self.write(".PP\n.nf\n" + "".join(f"{escaped(line)}\n" for line in lines) + ".fi\n")
            else:
                self.write(f".PP\n{escaped(' '.join(paragraph.split()))}\n")

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 0, col_spacing: int = 0) -> None:
        """Options or commands, each with what it means; man knows its own columns."""
        for term, about in rows:
            self.write(f".TP\n.B {escaped(term)}\n{escaped(' '.join(about.split()))}\n")

    def write_paragraph(self) -> None:
        """Blanks come with the macros."""

    @contextmanager
    def section(self, name: str) -> Iterator[None]:
        """A heading."""
        self.write(f'.SH "{escaped(name.upper())}"\n')
        yield


def escaped(text: str) -> str:
    """The text of a line; nothing in it is a macro."""
    plain = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{plain}" if plain.startswith((".", "'")) else plain


def page_of(command: click.Command, context: click.Context) -> str:
    """The page of one command."""
    name, formatter = page_name(context), ManFormatter()
    context.meta[EVERY_OPTION] = True
    about = command.get_short_help_str(limit=200)
    formatter.write(f'.TH "{name.upper()}" 1 "" "advisor {version("instance-sizing-advisor")}"\n')
    formatter.write(f".SH NAME\n{escaped(name)} \\- {escaped(about)}\n")
    command.format_help(context, formatter)
    if context.parent is not None:
        formatter.write(f".SH SEE ALSO\n.BR {escaped(page_name(context.parent))} (1)\n")
    return formatter.getvalue()


def page_name(context: click.Context) -> str:
    """'advisor-sweep-run'."""
    return context.command_path.replace(" ", "-")


def every_command(
    command: click.Command, context: click.Context
) -> Iterator[tuple[click.Command, click.Context]]:
    """The command, and those below it."""
    yield command, context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None and not below.hidden:
                yield from every_command(below, click.Context(below, context, name))


def write_pages(folder: Path) -> list[Path]:
    """One file a command, in the section 1."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for command, context in every_command(cli, click.Context(cli, info_name="advisor")):
        file = folder / f"{page_name(context)}.1"
        file.write_text(page_of(command, context))
        written.append(file)
    return written


if __name__ == "__main__":
    click.echo(f"{len(write_pages(Path(sys.argv[1])))} pages in {sys.argv[1]}")
