"""`--plan workloads.yaml`: reads a team's workloads, each in the options of `recommend`.

title: Vision team, November        # may be left out
defaults: {region: eu-west-1}       # for workloads that do not say it themselves
workloads:
  - name: Thumbnails                # may be left out
    task: inference
    model: googlenet
    target_throughput: 500          # as --target-throughput
  - {task: training, model: resnet50, epochs: 90, runs_per_month: 4}
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from advisor.domain import HOURS_PER_MONTH
from advisor.errors import AdvisorError, Faults, UsageError, one_line, unknown_name
from advisor.messages import Message
from advisor.questions.fields import Number

if TYPE_CHECKING:
    from yaml import MappingNode, Node

E = TypeVar("E", bound=AdvisorError)
MOST_WORKLOADS = 500
MOST_BYTES = 2**20
LONGEST_NAME = 500
_KEYS = ("title", "defaults", "workloads")
_NAME, RUNS, HOURS = "name", "runs_per_month", "hours_per_month"
# The most of each amount that a month has.
_MOST = {RUNS: 10_000, HOURS: HOURS_PER_MONTH}
# Marks that turn the direction of the text after them: it would be shown in another order than it has.
_BIDI = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


_OF_DEFAULTS = Message("{place}: defaults: {what}").text
_OF_WORKLOAD = Message("{place}: workload '{name}': {what}").text


class Entry(NamedTuple):
    """One workload of a plan: its texts by option, in the file's order, the runs per month of work that ends
    or the hours per month of other work, and the line numbers of its options and of the plan's defaults."""

    name: str
    line: int
    fields: Mapping[str, tuple[str, ...]]
    per_month: Mapping[str, float] = MappingProxyType({})
    file: str = ""
    lines: Mapping[str, int] = MappingProxyType({})
    default_lines: Mapping[str, int] = MappingProxyType({})

    def located(self, error: E) -> E:
        """The error with the line of the option that it blames, in this workload or in the defaults."""
        field = error.field or ""
        is_default = field in self.default_lines and field not in self.lines
        line = (self.default_lines if is_default else self.lines).get(field, self.line)
        text = _OF_DEFAULTS if is_default else _OF_WORKLOAD
        return type(error)(
            Message(text, place=f"{self.file}, line {line}", name=self.name, what=error.message),
            hint=error.hint,
            field=error.field,
            code=error.code,
        )


class _Written(NamedTuple):
    texts: dict[str, tuple[str, ...]]
    lines: dict[str, int]


class Plan(NamedTuple):
    """The title of a plan ('' where it has none) and its workloads."""

    title: str
    entries: tuple[Entry, ...]


def read_plan(content: bytes, name: str, faults: Faults | None = None) -> Plan:
    """The plan in the content of a file; raises `UsageError` with lines of faults. `faults` collects those
    of single workloads instead, and the plan has the other workloads."""
    reader = _Reader(name)
    plan = reader.plan(_root(content, name), faults or (own := Faults()))
    if faults is None:
        own.raise_any()
    return plan


def shown_name(text: str, what: str) -> str:
    """The stripped title or name; `UsageError` for control characters and changes of direction."""
    text = text.strip()
    if not text:
        raise UsageError("{what} is empty", what=what, hint="name one, or leave it out")
    if len(text) > LONGEST_NAME:
        raise UsageError(
            "{what} has {length} characters",
            what=what,
            length=len(text),
            hint=Message("take {most} at most", most=LONGEST_NAME),
        )
    if any(unicodedata.category(letter) in ("Cc", "Cs") or letter in _BIDI for letter in text):
        raise UsageError("{what} has characters that cannot be shown: {text}", what=what, text=repr(text))
    return text


def _root(content: bytes, name: str) -> Node | None:
    import yaml  # only plans need it

    if len(content) > MOST_BYTES:
        raise UsageError(
            "{file} is larger than a plan can be ({most} MiB)", file=name, most=MOST_BYTES // 2**20
        )
    try:
        return yaml.compose(content.decode("utf-8-sig"), Loader=yaml.SafeLoader)
    except UnicodeDecodeError:
        raise UsageError("{file} is no UTF-8 text", file=name, hint="save it as UTF-8") from None
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f"{name}, line {mark.line + 1}" if mark else name
        what = getattr(error, "problem", None) or "it cannot be read"
        raise UsageError("{place}: not valid YAML: {what}", place=line, what=one_line(str(what))) from None


class _Reader:
    """Reads the YAML nodes of one file, so that every error has a line. Values stay texts as written:
    `region: no` is the text "no", not false."""

    def __init__(self, file: str) -> None:
        self._file = file

    def plan(self, root: Node | None, faults: Faults) -> Plan:
        from yaml import SequenceNode

        if root is None:
            raise UsageError(
                "{file} is empty", file=self._file, hint="list what is to be sized under `workloads:`"
            )
        parts = {key: value for key, value, _ in self._pairs(root, "a plan")}
        for key in parts:
            if key not in _KEYS:
                raise self._wrong(root, unknown_name("key of a plan", key, _KEYS))
        title, defaults = "", _Written({}, {})
        with faults.collected():
            title = self._title(parts["title"]) if "title" in parts else ""
        with faults.collected():
            defaults = self._fields(parts["defaults"], "defaults") if "defaults" in parts else defaults
        listed = parts.get("workloads")
        if not isinstance(listed, SequenceNode) or not listed.value:
            fault = UsageError("`workloads:` must list at least one workload")
            raise self._wrong(listed or root, fault)
        if len(listed.value) > MOST_WORKLOADS:
            fault = UsageError("more than {most} workloads", most=MOST_WORKLOADS, hint="split the plan")
            raise self._wrong(listed, fault)
        entries: dict[str, Entry] = {}
        for number, node in enumerate(listed.value, start=1):
            with faults.collected():
                entry = self._entry(node, number, defaults)
                if entry.name in entries:
                    fault = UsageError(
                        "a second workload '{name}' (the first: line {line})",
                        name=entry.name,
                        line=entries[entry.name].line,
                        hint="name it otherwise",
                    )
                    raise self._wrong(node, fault)
                entries[entry.name] = entry
        return Plan(title, tuple(entries.values()))

    def _entry(self, node: Node, number: int, defaults: _Written) -> Entry:
        own = self._fields(node, f"workload {number}")
        fields = {**defaults.texts, **own.texts}
        texts = {key: " ".join(fields.pop(key, ())) for key in (_NAME, *_MOST)}
        name_given = texts.pop(_NAME)
        try:
            month = {key: Number(most=_MOST[key]).from_text(text, key) for key, text in texts.items() if text}
            name = shown_name(name_given, "name") if name_given else _usual_name(number, fields)
        except UsageError as error:
            raise self._wrong(node, error) from None
        return Entry(name, node.start_mark.line + 1, fields, month, self._file, own.lines, defaults.lines)

    def _title(self, node: Node) -> str:
        try:
            return shown_name(" ".join(self._texts(node, "title")), "title")
        except UsageError as error:
            raise self._wrong(node, error) from None

    def _fields(self, node: Node, what: str) -> _Written:
        fields, faults = _Written({}, {}), Faults()
        for key, value, mark in self._pairs(node, what):
            name = key.replace("-", "_").lower()
            with faults.collected():
                if name in fields.texts:
                    raise self._wrong(mark, UsageError("{what} says {key} twice", what=what, key=key))
                fields.texts[name] = self._texts(value, key)
                fields.lines[name] = mark.start_mark.line + 1
        faults.raise_any()
        return fields

    def _pairs(self, node: Node, what: str) -> Iterator[tuple[str, Node, Node]]:
        from yaml import MappingNode, ScalarNode

        if not isinstance(node, MappingNode):
            fault = UsageError("{what} must be written as `key: value` lines", what=what)
            raise self._wrong(node, fault)
        mapping: MappingNode = node
        for key, value in mapping.value:
            if not isinstance(key, ScalarNode) or key.value == "<<":
                fault = UsageError("{what} has a key that is no word", what=what)
                raise self._wrong(key, fault)
            yield str(key.value), value, key

    def _texts(self, node: Node, key: str) -> tuple[str, ...]:
        from yaml import ScalarNode, SequenceNode

        nodes = node.value if isinstance(node, SequenceNode) else [node]
        if not nodes or not all(isinstance(node, ScalarNode) and node.value for node in nodes):
            fault = UsageError(
                "{key} takes a value, or a list of values", key=key, hint="leave it out where there is none"
            )
            raise self._wrong(node, fault)
        return tuple(str(node.value) for node in nodes)

    def _wrong(self, node: Node, fault: UsageError) -> UsageError:
        return UsageError(
            "{file}, line {line}: {fault}",
            file=self._file,
            line=node.start_mark.line + 1,
            fault=fault.message,
            hint=fault.hint,
        )


def _usual_name(number: int, fields: Mapping[str, Any]) -> str:
    task_of_model = " ".join(" ".join(fields.get(key, ())) for key in ("model", "task")).strip()
    return shown_name(f"{number}. {task_of_model}"[:LONGEST_NAME], "name")
