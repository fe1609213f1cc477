"""The options of `advisor report`: those of `advisor recommend`, none of them required."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from typing import NamedTuple

import click

from advisor.cli.recommend import recommend
from advisor.errors import UsageError, unknown_name

# How `recommend` prints its answer is no part of the question; a report explains anyway.
_LEFT_OUT = ("output", "export_to", "explain", "explain_rejected")
_RAW = "advisor.render.arguments"
_YES, _NO = ("true", "yes", "on"), ("false", "no", "off")


class Said(NamedTuple):
    """An option as somebody gave it; `text` is None for a flag."""

    option: str
    text: str | None

    def words(self) -> list[str]:
        """As a command line has it."""
        return [self.option] if self.text is None else [self.option, self.text]


class ReportGroup(click.Group):
    """Keeps the words as they were typed: a report tells its own command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does."""
        ctx.meta[_RAW] = list(args)
        if not args:
            raise click.exceptions.NoArgsIsHelpError(ctx)
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, with the way out for a file that stands alone."""
        if args[0] not in self.commands:
            raise UsageError(
                f"`report` has no command '{args[0]}'; to tell a saved answer: --from FILE, a plan "
                "of workloads: --plan FILE"
            )
        return super().resolve_command(ctx, args)


def question_parameters() -> list[click.Parameter]:
    """The options of `recommend` that are a part of the question."""
    found = [copy(one) for one in recommend.params if one.name not in _LEFT_OUT]
    for one in found:
        one.required = False
    return found


def said_in(ctx: click.Context, command: click.Command) -> list[Said]:
    """What was typed, option by option."""
    return list(_said(ctx.meta.get(_RAW, ()), command.params))


def _said(words: Sequence[str], params: Iterable[click.Parameter]) -> Iterator[Said]:
    flags = {
        name for one in params if isinstance(one, click.Option) and one.is_flag for name in one.opts
    }
    rest = iter(words)
    for word in rest:
        option, equals, text = word.partition("=")
        if equals and option.startswith("--"):
            yield Said(option, text)
        elif option in flags:
            yield Said(option, None)
        else:
            yield Said(option, next(rest, None))


def without(said: Iterable[Said], options: Iterable[str]) -> list[Said]:
    """All but some options."""
    left = set(options)
    return [one for one in said if one.option not in left]


def command_line(command: str, said: Iterable[Said]) -> str:
    """As a shell takes it."""
    words = [word for one in said for word in one.words()]
    return as_text(f"advisor {command} {shlex.join(words)}".strip())


def as_text(word: str) -> str:
    """A word of a command line, which may hold the bytes of a name that is no UTF-8."""
    return word.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def question_options() -> frozenset[str]:
    """'--task', '--model', ..: what a question is asked with."""
    return frozenset(name for one in question_parameters() for name in one.opts)


def said_in_plan(words: Mapping[str, tuple[str, ...]]) -> list[Said]:
    """A workload of a plan as options; `UsageError` for a word that is none."""
    known = {
        name.removeprefix("--").replace("-", "_"): (name, one)
        for one in question_parameters()
        for name in one.opts
    }
    found: list[Said] = []
    for word, texts in words.items():
        if word not in known:
            raise unknown_name("word of a workload", word, known)
        found += _as_option(*known[word], texts)
    return found


def _as_option(name: str, one: click.Parameter, texts: tuple[str, ...]) -> list[Said]:
    if isinstance(one, click.Option) and one.is_flag:
        text = ",".join(texts).lower()
        if text not in (*_YES, *_NO):
            raise UsageError(f"{name.removeprefix('--')} is true or false, not '{text}'")
        return [Said(name, None)] if text in _YES else []
    if one.multiple:
        return [Said(name, text) for text in texts]
    return [Said(name, ",".join(texts))]


def words_of(said: Iterable[Said]) -> dict[str, object]:
    """The words that options are, read as `recommend` reads them; `UsageError` and click's own for
    what it would refuse."""
    arguments = [word for one in said for word in one.words()]
    return dict(recommend.make_context("report", arguments).params)
