"""Builds a report, `advisor.report/1`, with the command and digests that reproduce it."""

from __future__ import annotations

import hashlib
import platform
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from advisor.answers import ask
from advisor.answers.context import Context, load_context
from advisor.answers.networks import recommended
from advisor.answers.reporting.plans import Entry
from advisor.answers.reporting.saved import Input, read_saved, same_answer_today
from advisor.answers.reporting.sections import MEASUREMENTS, bare_section, language_section, network_section
from advisor.domain.workload import is_own_code
from advisor.engine import Preparations
from advisor.engine.tasks.network import table_of_disk_steps
from advisor.errors import AdvisorError, Faults, UsageError
from advisor.files import own_model_path
from advisor.models.bundled import FOLDER, MODEL
from advisor.questions.commands import AnyRecommend
from advisor.questions.fields import File, Files
from advisor.questions.language import RecommendFinetuning, RecommendGeneration
from advisor.questions.listings import Sources
from advisor.questions.network import Recommend
from advisor.questions.reading import options_of
from advisor.questions.settled import language_model_of, settled_serving, settled_tuning, today
from advisor.questions.traffic import KNOWN_TRAFFIC
from advisor.render.document import is_language, with_sentences
from advisor.render.facts import SCHEMA, totals, with_plan
from advisor.render.phrases import trial_command

_PACKAGE = "instance-sizing-advisor"


class Report(NamedTuple):
    """The title of a report and its day, its command without output options, the files read, and the data
    sources."""

    title: str
    as_of: date
    command: str
    inputs: Sequence[Input] = ()
    sources: Sources = Sources()


def reproducibility(context: Context, head: Report, sections: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The block `reproducibility` of the document: command, versions and digests."""
    sections = list(sections)
    model = context.sources().performance_model()
    drawn = {row["trial_id"] for section in sections for row in section["measured"]}
    answers = [section["recommendation"] for section in sections]
    language = [answer["performance_model"] for answer in answers if is_language(answer)]
    own = own_model_path()
    file = head.sources.performance_model or (own if own.is_file() else FOLDER / MODEL)
    return {
        "command": head.command,
        "inputs": [input.document() for input in head.inputs],
        "versions": {
            "advisor": advisor_version(),
            "python": platform.python_version(),
            "numpy": version("numpy"),
        },
        "catalog": {
            "as_of": context.catalog.as_of.isoformat(),
            "sha256": context.catalog.fingerprint,
            "sources": list(context.catalog.sources),
        },
        "performance_model": {**model, "sha256": hashlib.sha256(file.read_bytes()).hexdigest()},
        "language_predictors": [used for index, used in enumerate(language) if used not in language[:index]],
        "measurements": {
            "bundled_sha256": hashlib.sha256(MEASUREMENTS.read_bytes()).hexdigest(),
            "rows": len(drawn),
            "trial_ids": sorted(drawn),
        },
    }


def advisor_version() -> str:
    """The version of the installed package; 'unknown' in a folder that was never installed."""
    try:
        return version(_PACKAGE)
    except PackageNotFoundError:
        return "unknown"


class ReportedWorkload(NamedTuple):
    """A workload of a report: its name, its question, the command for this question alone, and its entry in a
    plan, which has the runs per month and the lines for errors."""

    name: str
    question: AnyRecommend
    command: str = ""
    entry: Entry | None = None


def report_of_question(question: AnyRecommend, sources: Sources, title: str) -> dict[str, object]:
    """`advisor.report/1` about one question, as of today; the title is by default the workload's name."""
    workload, day = question_of_report(question, sources), today()
    options = [*options_of(question), *options_of(sources), "--date", day.isoformat()]
    command, inputs = command_line("report", options), inputs_of(question)
    head = Report(title or workload.name, day, command, inputs, sources)
    return report(load_context(sources), [workload], head)


def question_of_report(question: AnyRecommend, sources: Sources) -> ReportedWorkload:
    """The question with the name of its section, and the command for this question alone."""
    command = command_line("recommend", [*options_of(question), *options_of(sources)])
    return ReportedWorkload(f"{question.model_text} {question.task}", question, command)


def command_line(command: str, options: Sequence[str]) -> str:
    """The command line, quoted for a shell."""
    return as_text(f"advisor {command} {shlex.join(options)}".strip())


def as_text(word: str) -> str:
    """A word of a command line as valid text: bytes of a file name that are not UTF-8 are replaced."""
    return word.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def inputs_of(*questions: AnyRecommend) -> tuple[Input, ...]:
    """The user's files that the questions name, each once."""
    files = dict.fromkeys(file for question in questions for file in _files_of(question))
    return tuple(map(read_input, files))


def _files_of(question: AnyRecommend) -> list[str]:
    fields = [field for field in question.fields.values() if isinstance(field.kind, File | Files)]
    values = [getattr(question, field.name) for field in fields]
    files = [file for value in values for file in (value if isinstance(value, tuple) else [value])]
    if isinstance(question, RecommendGeneration) and question.traffic not in KNOWN_TRAFFIC:
        files.append(question.traffic)
    return [str(file) for file in files if file]


def read_input(file: str) -> Input:
    """The name and content of a file; raises `UsageError` where it cannot be read."""
    try:
        return Input(as_text(file), Path(file).read_bytes())
    except OSError as error:
        raise UsageError("'{file}' cannot be read: {why}", file=file, why=error.strerror or "") from None


# Called after each workload with the number of finished ones.
Step = Callable[[int], None]


def report(
    context: Context, workloads: Sequence[ReportedWorkload], head: Report, *, step: Step | None = None
) -> dict[str, Any]:
    """`advisor.report/1`: one section per workload, in their order, and the totals. All questions are checked
    before the first is answered. Raises what `recommend` raises, with the workload's line in the plan."""
    check_workloads(context, workloads)
    preparations, sections = Preparations(context.catalog, context.model), list[dict[str, Any]]()
    for workload in workloads:
        with _with_place(workload):
            section = _section(context, workload, preparations, head.as_of)
            sections.append(with_plan(section, workload.entry.per_month if workload.entry else {}))
        if step:
            step(len(sections))
    return _assembled(context, head, sections)


def check_workloads(
    context: Context, workloads: Sequence[ReportedWorkload], faults: Faults | None = None
) -> None:
    """Raises one error for all invalid questions, with their lines in the plan, after the given `faults`."""
    faults = faults or Faults()
    for workload in workloads:
        with faults.collected(), _with_place(workload):
            question = workload.question
            if isinstance(question, RecommendFinetuning):
                settled_tuning(question, language_model_of(question), context.catalog)
            elif isinstance(question, RecommendGeneration):
                settled_serving(question, language_model_of(question), context.catalog)
            # Anchors and a user's network can be checked only after their files are read.
            elif not (question.anchor or is_own_code(question.network)):
                context.request(question)
    faults.raise_any()


def _section(
    context: Context, workload: ReportedWorkload, preparations: Preparations, as_of: date
) -> dict[str, Any]:
    question = workload.question.replace(explain_rejected=True)
    if not isinstance(question, Recommend):
        answer = ask.recommend(context, question, today=as_of)
        bare = bare_section(answer.message_document(), workload.name, workload.command)
        chosen, serves = answer.result.chosen, isinstance(question, RecommendGeneration)
        trial = trial_command(chosen, answer.result.request) if serves and chosen else None
        return language_section(bare, answer.result, context.catalog, as_of, trial)
    explained = question.replace(explain=True)
    network = recommended(context, explained, preparations=preparations, today=as_of)
    bare = bare_section(network.message_document(), workload.name, workload.command)
    table = table_of_disk_steps(network.result.request, network.preparations)
    return network_section(bare, network.context, network.result, table, as_of)


@contextmanager
def _with_place(question: ReportedWorkload) -> Iterator[None]:
    try:
        yield
    except AdvisorError as error:
        if question.entry is None:
            raise
        raise question.entry.located(error) from error


def report_of_saved(
    context: Context, files: Sequence[Input], head: Report, *, step: Step | None = None
) -> dict[str, Any]:
    """The report about saved answers. A section is complete where today's catalogue and model still give the
    same answer. Else, and for language models, it has only what the saved answer contains (`complete` is
    false)."""
    sections: list[dict[str, Any]] = []
    names = Counter[str]()
    for file in files:
        section = _saved_section(context, file, head.as_of)
        names[section["name"]] += 1
        if (number := names[section["name"]]) > 1:
            section["name"] += f" ({number})"
        sections.append(section)
        if step:
            step(len(sections))
    return _assembled(context, head, sections)


def _saved_section(context: Context, file: Input, as_of: date) -> dict[str, Any]:
    document = with_sentences(read_saved(file))
    request = document["request"]
    bare = bare_section(document, f"{request['model']} {request['task']}")
    if is_language(document):
        return bare
    preparations = Preparations(context.catalog, context.model)
    answer = same_answer_today(document, context, preparations)
    if answer is None:
        return bare
    return network_section(bare, context, answer, table_of_disk_steps(answer.request, preparations), as_of)


def _assembled(context: Context, head: Report, sections: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "title": head.title,
        "as_of": head.as_of.isoformat(),
        "totals": totals(sections),
        "workloads": list(sections),
        "reproducibility": reproducibility(context, head, sections),
    }
