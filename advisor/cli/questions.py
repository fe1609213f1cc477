"""Builds a command's options from the fields of its question, and other options with the same parsing.

An option with an invalid value ends the command with exit code 2 and a hint."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from copy import copy
from datetime import date
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar

import click

from advisor.catalog import load_catalog
from advisor.errors import UsageError
from advisor.messages import FieldName, Message
from advisor.questions.fields import Choice, Kind, Parsed
from advisor.questions.listings import Sources
from advisor.questions.question import ByTask, Field, Kinds, Question, tasks_of
from advisor.questions.reading import from_fields
from advisor.questions.settled import types_with
from advisor.questions.values import parse_gpus

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

Command = TypeVar("Command", bound=Callable[..., Any])
Q = TypeVar("Q", bound=Question)


# A report always has the explanation and a selection of rejected candidates.
NOT_IN_REPORTS = ("explain", "explain_rejected")


# The most used options. `--help` of a command with many options lists only these.
_USUAL = frozenset(
    {
        *("task", "model", "instance", "target_throughput", "batch_size", "precision", "epochs", "max_hours"),
        *("users", "target_requests_per_s", "max_ttft_ms", "max_tpot_ms", "think_seconds", "engine"),
        *("input_tokens", "output_tokens", "tokens", "sequence", "method", "max_cost"),
        *("gpu", "cloud", "market", "max_price", "anchor", "output", "explain", "out"),
        *("title", "plan_file", "saved", "format_name", "language"),
    }
)
# Options that this short help mentions by name, without a line each.
_FURTHER = ("traffic", "max_e2e_s", "confidence")
_MANY, _WIDEST, _LONG = 25, 30, 130
# Keys of a context's `meta`: whether to list all options, and the words of the command line.
EVERY_OPTION, _WORDS = f"{__name__}.every", f"{__name__}.words"


class FieldType(click.ParamType[Any]):
    """A click type that parses an option's text with the kind of a question's field."""

    def __init__(self, kind: Kind, field: str) -> None:
        self.kind = kind
        self.field = field
        self.name = kind.metavar

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The parsed value; `UsageError` names the option. A value that is not text is returned as it is."""
        return self.kind.from_text(value, self.field) if isinstance(value, str) else value

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Known names that begin with the typed text, or with its last part if it has commas."""
        from click.shell_completion import CompletionItem  # needed for completion only

        names = self.kind.names if isinstance(self.kind, Choice) else known_names(self.field)
        before, comma, last = incomplete.rpartition(",")
        return [CompletionItem(before + comma + name) for name in names if name.startswith(last)]

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """The kind's placeholder for a value in help texts."""
        return self.kind.metavar

    def get_missing_message(self, param: click.Parameter, ctx: click.Context | None) -> str | None:
        """The names to choose from, where an option that is needed was left out."""
        return f"Choose from {', '.join(self.kind.names)}" if isinstance(self.kind, Choice) else None


class TaskFieldType(FieldType):
    """A click type that parses an option as the question of the task does; click parses --task first."""

    def __init__(self, kinds: ByTask[Any], field: str) -> None:
        super().__init__(kinds.fields[field].kind, field)
        self.kinds = kinds

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The parsed value; raises `UsageError` if it is invalid or the option belongs to other tasks."""
        task = value if self.field == "task" else ctx and ctx.params.get("task")
        kind = self.kinds.kind_of(task)
        if self.field not in kind.fields:
            refusal = self.kinds.refusal(self.field)
            if self.field == "gpu" and "instance" in kind.fields:
                several = kind.fields["instance"].kind.repeats
                if names := types_with(load_catalog(), parse_gpus(value), 3 if several else 1):
                    option = FieldName("instance")
                    hint = "a language model is shown on whole instances; what has it: {instance} {names}"
                    refusal.hint = Message(hint, instance=option, names=",".join(names))
            raise refusal
        try:
            return kind.fields[self.field].kind.from_text(value, self.field)
        except UsageError as error:
            for other in self.kinds.kinds if task is None else ():
                with suppress(UsageError, KeyError):
                    other.fields[self.field].kind.from_text(value, self.field)
                    of_task, name = FieldName("task"), tasks_of(other)[0]
                    error.hint = Message("for a language model add {task} {name}", task=of_task, name=name)
                    break
            raise


class FieldOption(click.Option):
    """An option that `--help` lists under a heading, or under several if its meaning depends on the task."""

    section = "Options"
    by_task: Sequence[FieldOption] = ()
    declared: Sequence[Field] = ()
    kinds: ByTask[Any] | None = None

    def of_task(self, task: str | None) -> FieldOption | None:
        """The option as the task uses it (default: as network tasks do); None if only other tasks have it."""
        if self.kinds is None or self.name == "task":
            return self
        field = self.kinds.kind_of(task).fields.get(str(self.name))
        return self.by_task[self.declared.index(field)] if field in self.declared else None


def known_names(field: str) -> Iterable[str]:
    """All names that shells complete for a field: networks, instance types, GPUs or clouds; else nothing."""
    if field == "model":
        from advisor.models.language.configs import bundled_language_models
        from advisor.models.performance.networks import bundled_networks

        return (*bundled_networks().names, *bundled_language_models().names())
    if field not in ("instance", "gpu", "cloud"):
        return ()
    catalog = load_catalog()
    if field == "instance":
        return catalog.type_names("any")
    return catalog.gpu_sheets if field == "gpu" else catalog.clouds


def _task_in(context: click.Context) -> str | None:
    """The task on the command line, before or after `--help`."""
    words = context.meta.get(_WORDS, [])
    named = [word.partition("=")[2] for word in words if word.startswith("--task=")]
    after = [text for word, text in pairwise(words) if word == "--task"]
    return next(iter(after + named), None)


def _write_usual(
    params: Sequence[click.Parameter],
    context: click.Context,
    formatter: click.HelpFormatter,
    usual: Collection[str],
) -> None:
    """Write short help for the most used options of the task on the command line (default: of networks)."""
    task, lines, further = _task_in(context), list[tuple[str, str]](), list[str]()
    for param in params:
        shown = param.of_task(task) if isinstance(param, FieldOption) else param
        record = shown.get_help_record(context) if shown and param.name in usual else None
        lines += [_shortened(*record)] if record else []
        further += [param.opts[0]] if shown and param.name in _FURTHER else []
    with formatter.section("Options that people use"):
        formatter.write_dl(lines)
    of_tasks = any(isinstance(param, FieldOption) and param.kinds for param in params)
    other = (
        "; for language models: `--task generation --help`, `--task finetuning --help`"
        if of_tasks and task is None
        else ""
    )
    formatter.write_paragraph()
    among = f" ({', '.join(further)} ..)" if further else ""
    formatter.write_text(f"All {len(params)} options: --help-all{among}{other}.")


def _shortened(names: str, text: str) -> tuple[str, str]:
    """An option's names and short help: the first sentence, or its choices if the names got too wide."""
    first, _, rest = text.partition(". ")
    default = re.search(r"\[(default: [^;\]]*|required)", rest or first)
    choices = re.search(r" \[(.*)\]$", names)
    if choices and len(names) > _WIDEST:
        names = f"{names[: choices.start()]} NAME"
        are_told = len(first) < _LONG and all(choice in first for choice in choices[1].split("|"))
        short = len(choices[1]) < _LONG / 2 and not are_told
        first = choices[1].replace("|", ", ") if short else first
    sentence = re.split(r"(?:^|  )\[", first)[0].rstrip(".")
    if len(sentence) > _LONG:
        sentence = sentence.partition(": ")[0]
    return names, f"{sentence} [{default[1]}]".lstrip() if default else sentence


def _tell_all(context: click.Context, _param: click.Parameter, given: bool) -> None:
    if given:
        context.meta[EVERY_OPTION] = True
        click.echo(context.get_help(), color=context.color)
        context.exit()


_HELP_ALL = click.Option(
    ["--help-all"],
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_tell_all,
    help="Show every option and exit.",
)


def help_by_heading(
    params: Sequence[click.Parameter], context: click.Context
) -> dict[str, list[tuple[str, str]]]:
    """Heading -> help records of its options, those of a task on the command line; headings are in the order
    of their first options."""
    headings, task = dict[str, list[tuple[str, str]]](), _task_in(context)
    for param in params:
        records = [("Options", param.get_help_record(context))]
        if isinstance(param, FieldOption):
            options = [param.of_task(task)] if task else param.by_task or [param]
            each_of = [(each.section, each.get_help_record(context)) for each in options if each]
            records = [*dict.fromkeys(each_of)]
        for heading, record in records:
            if record is not None:
                headings.setdefault(heading, []).append(record)
    return headings


class SectionedCommand(click.Command):
    """A command whose `--help` has headings, or shows only the `usual` options if there are many. Options in
    `lists` may be repeated; their values are joined by commas."""

    lists: tuple[str, ...] = ("gpu", "quota", "instance")
    usual: Collection[str] = _USUAL

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse as click does, but join the values of repeated `lists` options: click would keep the last."""
        ctx.meta[_WORDS] = list(args)
        end = args.index("--") if "--" in args else len(args)
        own, lists, words = list[str](), dict[str, list[str]](), iter(args[:end])
        for word in words:
            option, has_value, value = word.partition("=")
            if option.removeprefix("--") in self.lists and option.startswith("--"):
                lists.setdefault(option, []).append(value if has_value else next(words, ""))
            else:
                own.append(word)
        if any(len(texts) > 1 for texts in lists.values()):
            joined = [f"{option}={','.join(texts)}" for option, texts in lists.items()]
            args = [*own, *joined, *args[end:]]
        return super().parse_args(ctx, args)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The command's parameters, with `--help-all` if there are many."""
        params = super().get_params(ctx)
        return [*params, _HELP_ALL] if len(params) > _MANY else params

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help text as click does; if the command line names a task, only with its examples."""
        task, shown = _task_in(ctx), copy(self)
        if task and self.help:
            lines = self.help.splitlines()
            shown.help = "\n".join(
                line for line in lines if "--task" not in line or f"--task {task} " in line
            )
        super(SectionedCommand, shown).format_help_text(ctx, formatter)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write all options by heading, or only the usual ones if there are many; then a group's commands."""
        params = self.get_params(ctx)
        if len(params) <= _MANY or ctx.meta.get(EVERY_OPTION):
            for title, lines in help_by_heading(params, ctx).items():
                with formatter.section(title):
                    formatter.write_dl(lines)
        else:
            _write_usual(params, ctx, formatter, self.usual)
        if isinstance(self, click.Group):
            self.format_commands(ctx, formatter)


def question_options(kind: Kinds[Any], name: str = "question") -> Callable[[Command], Command]:
    """A decorator that adds a question's options to a command, which gets the question as its `name`."""

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def with_question(*args: Any, **values: Any) -> Any:
            return command(*args, **{name: question_from(kind, values)}, **values)

        for option in reversed(options_of_kind(kind)):
            _remember(with_question, option)
        return with_question  # type: ignore[return-value]

    return decorate


def cny_option(command: Command) -> Command:
    """Add `--cny-per-usd` to a command that needs no other option of `Sources`."""
    _remember(command, _option(Sources.fields["cny_per_usd"], required=False))
    return command


def question_from(kind: Kinds[Q], values: dict[str, Any]) -> Q:
    """Build a question from the values that click parsed, and remove these from `values`."""
    read = {field: values.pop(field) for field in _fields(kind)}
    if isinstance(kind, ByTask):
        read = {
            name: value
            for name, value in read.items()
            if _is_given(value) or (value is False and kind.fields[name].is_open)
        }
    return from_fields(kind, read)


def _is_given(value: object) -> bool:
    """True if an option without a default was given; a 0.0 was, although it equals False."""
    return value is not None and value is not False and value != ()


def options_of_kind(
    kind: Kinds[Any], *, without: Collection[str] = (), required: bool = True
) -> list[click.Option]:
    """The options of a question, except `without`; with `required=False`, none of them is mandatory."""
    fields = [field for field in _fields(kind).values() if field.name not in without]
    if isinstance(kind, ByTask):
        return [_option_by_task(kind, field.name, required=required) for field in fields]
    return [_option(field, required=required and field.required) for field in fields]


def _fields(kind: Kinds[Any]) -> dict[str, Field]:
    return {name: field for name, field in kind.fields.items() if field.where != "http"}


def _option_by_task(kinds: ByTask[Any], name: str, *, required: bool) -> FieldOption:
    """The option of a field that tasks may parse differently. It has no default here: the question supplies
    it once the task is known. `--task` itself is parsed first."""
    declared = [field for field in kinds.declarations(name) if field.where != "http"]
    options = [_option(_without_default(field), required=False) for field in declared]
    option = options[0]
    option.by_task, option.declared, option.kinds = options, declared, kinds
    option.is_eager = name == "task"
    option.required = required and name == "task" and declared[0].required
    if not option.is_flag:
        option.type = TaskFieldType(kinds, name)
    return option


def _without_default(field: Field) -> Field:
    """The field without its default, which only its help text still mentions."""
    default = field.default
    if field.required or not _is_given(default):
        return field._replace(default=False if default is False else None)
    return field._replace(default=None, usual=field.usual or field.kind.text_of(default))


def _option(field: Field, *, required: bool) -> FieldOption:
    is_flag, default = field.default is False, field.default
    if default not in (None, ()):  # as text, so that `--help` can show it; click parses it like a typed value
        default = field.kind.text_of(default)
    names = f"{field.option}/--no-{field.option[2:]}" if field.is_open else field.option
    option = FieldOption(
        [names, field.name],
        help=field.help + (f"  [default: {field.usual}]" if field.usual else ""),
        required=required,
        **({"is_flag": True} if is_flag or field.is_open else {"type": FieldType(field.kind, field.name)}),
        **({} if field.required or is_flag else {"default": default}),
        multiple=field.kind.repeats,
        show_default=field.default not in (None, (), False),
    )
    option.section = field.section
    return option


def _remember(command: Callable[..., Any], option: click.Option) -> None:
    if not hasattr(command, "__click_params__"):
        command.__click_params__ = []  # type: ignore[attr-defined]
    command.__click_params__.append(option)  # type: ignore[attr-defined]


def typed_option(kind: Kind, *names: str, **settings: Any) -> Callable[[Command], Command]:
    """A `click.option` whose text is parsed by a kind of field; `--help` shows its default."""
    long = next(name for name in names if name.startswith("--"))
    field = FieldType(kind, long.removeprefix("--").replace("-", "_"))
    return click.option(*names, type=field, show_default="default" in settings, **settings)


def output_in(*formats: str, help: str | None = None) -> Callable[[Command], Command]:
    """The option `-o` of commands that list or answer; the first format is the default."""
    return typed_option(Choice("output format", formats), "-o", "--output", default=formats[0], help=help)


output_option = output_in("table", "json")


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise UsageError(f"'{text}' is not a date like 2026-07-20") from None


DAY = FieldType(Parsed(_day, str, "YYYY-MM-DD"), "date")
