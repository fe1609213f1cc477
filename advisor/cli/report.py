"""`advisor report`: writes sizing reports, compares two of them, and sends them (`--send`)."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from advisor.answers.context import load_context
from advisor.answers.reporting.plans import HOURS, RUNS, Entry, Plan, read_plan, shown_name
from advisor.answers.reporting.reports import (
    Report,
    ReportedWorkload,
    as_text,
    check_workloads,
    command_line,
    inputs_of,
    question_of_report,
    read_input,
    report_of_saved,
)
from advisor.answers.reporting.reports import report as gathered
from advisor.answers.reporting.saved import Input, read_saved
from advisor.cli.printing import is_terminal, tell
from advisor.cli.questions import (
    DAY,
    NOT_IN_REPORTS,
    SectionedCommand,
    options_of_kind,
    output_in,
    question_from,
    typed_option,
)
from advisor.domain import HOURS_PER_MONTH
from advisor.errors import DeliveryError, Faults, UsageError
from advisor.files import require_writable, write_whole
from advisor.messages import FieldName, Message
from advisor.questions.commands import RECOMMEND
from advisor.questions.fields import Choice, error_in
from advisor.questions.listings import Sources
from advisor.questions.network import Recommend
from advisor.questions.reading import from_fields, from_texts, options_of
from advisor.questions.settled import today
from advisor.render.diff import difference
from advisor.render.diff_text import difference_markdown, difference_text
from advisor.render.document import with_sentences
from advisor.render.facts import SCHEMA, totals
from advisor.render.formats import LANGUAGES, REPORT_FORMATS, ReportFormat, format_of_file, report_format

if TYPE_CHECKING:
    from advisor.runs.delivery.letter import Letter
    from advisor.runs.delivery.targets import Target

send_option = click.option(
    "--send",
    multiple=True,
    metavar="TARGET",
    help="Also send it: file:PATH, s3://BUCKET/KEY, https://.., smtp://HOST:PORT?to=ADDRESS, or "
    "env:NAME of a variable with one; repeatable. See docs/how-to/reports.md.",
)


class Destination(NamedTuple):
    """Where a report goes: a file (`path`), stdout (if `prints`), and the `targets` it is sent to."""

    path: Path | None
    prints: bool
    targets: tuple[Target, ...]

    @classmethod
    def of(cls, out: str | None, send: Sequence[str]) -> Destination:
        """Check `--out` and `--send` before the long work; `UsageError` if one cannot be used."""
        path = None if out in (None, "-") else Path(str(out))
        targets: tuple[Target, ...] = ()
        if send:
            from advisor.runs.delivery.targets import checked_target

            targets = tuple(map(checked_target, send))
        if path is not None:
            require_writable(path)
        return cls(path, path is None and not (targets and out is None), targets)

    def write(self, content: bytes) -> None:
        """Write the content to the file or to stdout, if it goes to either."""
        if self.path is not None:
            write_whole(self.path, content)
            tell(as_text(f"wrote {self.path}"))
        elif self.prints:
            sys.stdout.buffer.write(content)


def format_of_targets(send: Sequence[str]) -> str:
    """The report's format by the suffix of the first file or S3 target that has a known one; else md."""
    for text in send:
        if text.startswith(("file:", "s3:")) and not text.endswith("/"):
            with suppress(UsageError):
                return format_of_file(text.rpartition("/")[2])
    return "md"


def send_out(message: Letter, targets: Sequence[Target]) -> None:
    """Send a message to every target; raise `DeliveryError` with the errors of those that failed."""
    from advisor.runs.delivery.targets import deliver

    deliveries = [deliver(message, target, say=tell) for target in targets]
    for delivery in deliveries:
        if delivery.arrived:
            tell(f"sent to {delivery.label}")
    lost = [delivery.error for delivery in deliveries if not delivery.arrived]
    if lost:
        raise DeliveryError("; ".join(lost))


_STDIN = "-"
DIFFERENT, TROUBLE = 1, 128


def _json(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


# Format of a difference -> file suffix, media type and the function that writes it.
_FORMATS: dict[str, tuple[str, str, Callable[[Mapping[str, Any]], str]]] = {
    "table": ("txt", "text/plain; charset=utf-8", difference_text),
    "md": ("md", "text/markdown; charset=utf-8", difference_markdown),
    "json": ("json", "application/json", _json),
}


@click.command()
@click.argument("old", type=click.Path())
@click.argument("new", type=click.Path())
@output_in(*_FORMATS)
@click.option("--out", type=click.Path(), metavar="FILE", help="File to write.  [default: stdout, as -]")
@click.option(
    "--exit-code",
    is_flag=True,
    help="Exit with 1 if anything changed, 0 if not; 2 or 128 on an error, as git diff does.",
)
@send_option
def diff(old: str, new: str, output: str, out: str | None, exit_code: bool, send: tuple[str, ...]) -> int:
    """Show what changed between two saved reports or recommendations (JSON; - is stdin).

    \b
    advisor report --plan workloads.yaml --format json --out november.json
    advisor report diff october.json november.json
    advisor report diff old.json new.json --send "smtp://mail:587?to=team@example.com"
    """
    try:
        document = _write_diff(old, new, output, out, send)
    except Exception as error:
        if exit_code and getattr(error, "exit_code", 1) == DIFFERENT:  # that code would mean "changed"
            error.exit_code = TROUBLE  # type: ignore[attr-defined]
        raise
    return DIFFERENT if exit_code and document["changed"] else 0


def _write_diff(old: str, new: str, output: str, out: str | None, send: tuple[str, ...]) -> dict[str, Any]:
    to = Destination.of(out, send)
    if old == new == _STDIN:
        raise UsageError("only one of the two can be read from stdin")
    files = [
        Input(name, sys.stdin.buffer.read()) if name == _STDIN else read_input(name) for name in (old, new)
    ]
    before, after = map(read_saved, files)
    document = difference(before, after, *(file.name for file in files))
    extension, media_type, written = _FORMATS[output]
    content = written(document).encode(errors="replace")
    to.write(content)
    if to.targets:
        from advisor.runs.delivery.letter import Attachment, difference_message

        name = f"report-diff-{document['new']['as_of']}.{extension}"
        send_out(difference_message(document, [Attachment(name, media_type, content)]), to.targets)
    return document


class ReportGroup(SectionedCommand, click.Group):
    """The group `report`, which also works without a subcommand."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the subcommand as click does; the error for a file's name says how to give it."""
        if args[0] not in self.commands:
            hint = "for a saved answer: --from FILE; for a plan of workloads: --plan FILE"
            raise UsageError(f"`report` has no command '{args[0]}'", hint=hint)
        return super().resolve_command(ctx, args)


@click.group(cls=ReportGroup, invoke_without_command=True, no_args_is_help=True)
@click.option(
    "--plan",
    "plan_file",
    type=click.Path(),
    metavar="FILE",
    help="YAML file with several workloads, as above; - reads stdin.",
)
@click.option(
    "--from",
    "saved",
    multiple=True,
    type=click.Path(),
    metavar="FILE",
    help="Saved `recommend -o json` (repeatable) or saved report; - reads stdin.",
)
@click.option("--title", help="Title.  [default: the workload or the plan's title]")
@click.option(
    "--date",
    "as_of",
    type=DAY,
    help="Date of the report; ages count from it, prices stay those known now.  [default: today]",
)
@typed_option(
    Choice("report format", REPORT_FORMATS),
    "--format",
    "-o",
    "format_name",
    help="[default: by the end of --out, else md]",
)
@click.option("--out", type=click.Path(), metavar="FILE", help="File to write.  [default: stdout, as -]")
@typed_option(
    Choice("language", (*LANGUAGES, "zh")),
    "--language",
    default=LANGUAGES[0],
    help="Language of the report's text.",
)
@send_option
@click.pass_context
def report(
    ctx: click.Context,
    /,
    plan_file: str | None,
    saved: tuple[str, ...],
    title: str | None,
    as_of: date | None,
    format_name: str | None,
    out: str | None,
    language: str,
    send: tuple[str, ...],
    **options: Any,
) -> None:
    """Write a report that stands alone, about one workload or a plan of several.

    \b
    advisor report --task inference --model googlenet --target-throughput 500 --out report.html
    advisor report --plan workloads.yaml --title "Vision team" --out team.pdf
    advisor recommend ... -o json | advisor report --from - --language zh-CN --out report.md

    \b
    A plan is YAML; its keys are the options of `recommend` with _ for - (--help-all lists them), and
    runs_per_month (of work that ends) or hours_per_month (of other work):
      title: Vision team
      defaults: {region: us-east-1}  # for workloads that do not set it
      workloads:
        - {name: Thumbnails, task: inference, model: googlenet, target_throughput: 500}
        - {name: Weekly, task: training, model: resnet50, epochs: 90, runs_per_month: 4.3}
        - {name: Chat, task: generation, model: meta-llama/Llama-3.1-8B, users: 40}
    A longer one: docs/examples/workloads.yaml. The JSON report: schemas/report.schema.json in advisor/render.
    """
    if ctx.invoked_subcommand is not None:
        if any(_is_given(ctx, name) for name in ctx.params):  # they would be ignored
            raise UsageError(f"`report {ctx.invoked_subcommand}` takes its options behind its name")
        return
    sources = question_from(Sources, options)
    given = {name: value for name, value in options.items() if _is_given(ctx, name)}
    ask = Ask(given, sources, plan_file, saved, title, as_of)
    spoken = next(name for name in LANGUAGES if name.startswith(language))
    make_report(ask, Destination.of(out, send), format_name, spoken, send)


report.params += options_of_kind(RECOMMEND, without=NOT_IN_REPORTS, required=False)
report.params += options_of_kind(Sources)
report.add_command(diff)


def _is_given(ctx: click.Context, name: str) -> bool:
    return ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE


# Fields that apply to all workloads of a plan, and that a single one may not set.
_SHARED = ("live",)
# Fields that limit the length of a run.
_ENDS = ("epochs", "samples", "tokens")


class Ask(NamedTuple):
    """What to report on: the given fields of a question, a plan or saved answers, and the data to use."""

    given: dict[str, Any]
    sources: Sources
    plan_file: str | None
    saved: tuple[str, ...]
    title: str | None
    as_of: date | None


def make_report(ask: Ask, to: Destination, name: str | None, language: str, send: Sequence[str]) -> None:
    """Make a report, then write it and send it; if making it fails, nothing is written."""
    kind = _format(to, name, send)
    document = _report_document(ask)
    content = kind.content(document, language)
    to.write(content)
    if to.targets:
        from advisor.runs.delivery.letter import attachment, report_message

        file = attachment(to.path.name if to.path else f"report-{document['as_of']}", kind, content)
        send_out(report_message(document, file), to.targets)


def _format(to: Destination, name: str | None, send: Sequence[str]) -> ReportFormat:
    if name is None:
        name = format_of_file(to.path.name) if to.path else format_of_targets(send)
    kind = report_format(name)
    kind.require_packages()
    if to.prints and kind.binary and sys.stdout.isatty():
        raise UsageError(
            "{format} is no text for a terminal",
            format=name,
            hint=Message("name a file: --out report.{format}", format=name),
        )
    return kind


def plan_report(file: str) -> dict[str, Any]:
    """The JSON document of the report on a plan's workloads, as of today."""
    return _report_on_plan(Ask({}, Sources(), file, (), None, None), file)


def _report_document(ask: Ask) -> dict[str, Any]:
    ways = [ask.plan_file is not None, bool(ask.saved), _describes_workload(ask)]
    if ways == [True, False, True]:
        raise _beside_plan(ask)
    if sum(ways) != 1:
        raise UsageError(
            "say what to report on", hint="one alone of: a question (--task, ..), --from FILE, --plan FILE"
        )
    if ask.plan_file is not None:
        return _report_on_plan(ask, ask.plan_file)
    if ask.saved:
        return _report_on_saved(ask)
    question = question_of_report(from_fields(RECOMMEND, ask.given), ask.sources)
    return _report_on_questions(ask, [_with_live_prices(question, ask)], (), question.name)


def _describes_workload(ask: Ask) -> bool:
    """Return whether options describe a workload, beyond those that also apply to a plan or saved answers."""
    shared = _SHARED if ask.plan_file or ask.saved else ()
    return any(field not in shared for field in ask.given)


def _beside_plan(ask: Ask) -> UsageError:
    """The error for options of a question beside a plan, with the keys to write into it instead."""
    given = {name: value for name, value in ask.given.items() if name not in _SHARED}
    fields = {name: field for kind in RECOMMEND.kinds for name, field in kind.fields.items() if name in given}
    keys = [
        f"{name}: {'true' if value is True else fields[name].kind.text_of(value)}"
        for name, value in given.items()
    ]
    return UsageError(
        "{options} cannot be given beside --plan",
        options=[FieldName(name) for name in given],
        hint=Message(
            "write `{keys}` under `defaults:` in {file}",
            keys=", ".join(keys),
            file="the plan" if ask.plan_file == _STDIN else as_text(str(ask.plan_file)),
        ),
    )


def _report_on_plan(ask: Ask, file: str) -> dict[str, Any]:
    source = _read(file)
    plan, workloads = planned_workloads(source.content, source.name, ask.sources)
    questions = [_with_live_prices(workload, ask) for workload in workloads]
    stem = "" if file == _STDIN else Path(source.name).stem
    usual = plan.title or shown_name(stem or "workloads", "the plan's name")
    return _report_on_questions(ask, questions, (source,), usual)


def planned_workloads(content: bytes, file: str, sources: Sources) -> tuple[Plan, list[ReportedWorkload]]:
    """A plan, and its workloads as questions. Raises `UsageError`, which locates each mistake in the file."""
    faults, workloads = Faults(), list[ReportedWorkload]()
    plan = read_plan(content, file, faults)
    for entry in plan.entries:
        with faults.collected(entry.located):
            workloads.append(_workload_of_entry(entry))
    if faults.errors:  # also report mistakes that only the catalogue shows
        check_workloads(load_context(sources), workloads, faults)
    return plan, workloads


def _workload_of_entry(entry: Entry) -> ReportedWorkload:
    for field in entry.fields:
        if field in (*_SHARED, *Sources.fields, *NOT_IN_REPORTS):
            raise error_in(
                field, "{field} cannot differ by workload", hint="give it to `report`, or leave it out"
            )
    question = from_texts(RECOMMEND, entry.fields, "key")
    ends, often = any(getattr(question, field, None) for field in _ENDS), entry.per_month.get(RUNS)
    if often and not ends:
        hint = "give epochs, samples or tokens, or leave it out"
        raise UsageError("{key} counts runs, and this workload stays on", key=RUNS, hint=hint, field=RUNS)
    if ends and HOURS in entry.per_month:
        hint = "give runs_per_month, or leave it out"
        raise UsageError(
            "{key} is for what stays on, and this workload ends", key=HOURS, hint=hint, field=HOURS
        )
    command = command_line("recommend", options_of(question))
    if often and question.owes_term and question.horizon_hours == HOURS_PER_MONTH:
        question = question.replace(horizon_hours=round(HOURS_PER_MONTH / often, 2))
    return ReportedWorkload(entry.name, question, command, entry)


def _with_live_prices(question: ReportedWorkload, ask: Ask) -> ReportedWorkload:
    if not ask.given.get("live"):
        return question
    if ask.as_of not in (None, today()):
        raise UsageError("--live tells today's prices", hint="leave out --date")
    if not isinstance(question.question, Recommend):
        error = RECOMMEND.refusal("live")
        raise question.entry.located(error) if question.entry else error
    return question._replace(question=question.question.replace(live=True))


def _report_on_questions(
    ask: Ask, questions: Sequence[ReportedWorkload], inputs: Sequence[Input], usual: str
) -> dict[str, Any]:
    read = (*inputs, *inputs_of(*(question.question for question in questions)))
    context, wanted = load_context(ask.sources), _report_settings(ask, read, usual)
    with _progress(len(questions)) as step:
        return gathered(context, questions, wanted, step=step)


def _report_on_saved(ask: Ask) -> dict[str, Any]:
    sources = [_read(file) for file in ask.saved]
    documents = [read_saved(file) for file in sources]
    reports = [file for file in documents if file["schema"] == SCHEMA]
    if not reports:
        names = [f"{file['request']['model']} {file['request']['task']}" for file in documents]
        usual = names[0] if len(names) == 1 else "workloads"
        context, wanted = load_context(ask.sources), _report_settings(ask, sources, usual)
        with _progress(len(sources)) as step:
            return report_of_saved(context, sources, wanted, step=step)
    if len(documents) > 1 or ask.title or ask.as_of:
        hint = "leave out other files, --title and --date; `advisor report diff` compares two reports"
        raise UsageError("a saved report stands alone, with its title and its day", hint=hint)
    # Recompute totals: an earlier version added runs that end to the monthly costs of those that do not.
    saved = with_sentences(reports[0])
    return saved | {"totals": totals(saved["workloads"])}


def _report_settings(ask: Ask, inputs: Sequence[Input], usual: str) -> Report:
    day = ask.as_of or today()
    command = command_line("report", _options_of(ask, day))
    title = usual if ask.title is None else shown_name(ask.title, "--title")
    return Report(title, day, command, inputs, ask.sources)


def _options_of(ask: Ask, day: date) -> list[str]:
    """The command-line options that would make the same report again, without those on its output."""
    options = [] if ask.plan_file is None else ["--plan", ask.plan_file]
    options += [word for file in ask.saved for word in ("--from", file)]
    options += [] if ask.title is None else ["--title", ask.title]
    if _describes_workload(ask):
        options += options_of(from_fields(RECOMMEND, ask.given))
    elif ask.given.get("live"):
        options += ["--live"]
    return [*options, *options_of(ask.sources), "--date", day.isoformat()]


def _read(file: str) -> Input:
    return Input("stdin", sys.stdin.buffer.read()) if file == _STDIN else read_input(file)


@contextmanager
def _progress(length: int) -> Iterator[Callable[[int], None]]:
    """Yield a function that takes the number of finished workloads; on a terminal it shows progress."""
    if length < 2 or not is_terminal(sys.stderr):
        yield lambda _done: None
        return
    with click.progressbar(length=length, label="workloads", file=sys.stderr) as bar:
        yield lambda done: bar.update(done - bar.pos)
