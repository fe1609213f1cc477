"""`--plan workloads.yaml`: a team's workloads in one file, each in the words of `recommend`.

title: Vision team, November        # may be left out
defaults: {region: eu-west-1}       # for workloads that do not say it themselves
workloads:
  - name: Thumbnails                # may be left out
    task: inference
    model: googlenet
    target_throughput: 500          # as --target-throughput
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from advisor.errors import UsageError, one_line, unknown_name

if TYPE_CHECKING:
    from yaml import MappingNode, Node

MOST_WORKLOADS = 500
MOST_BYTES = 2**20
LONGEST_NAME = 500
_KEYS = ("title", "defaults", "workloads")
_NAME = "name"
# They turn the direction of what follows: what is shown is not what stands there.
_BIDI = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


class Entry(NamedTuple):
    """One workload as it was written: texts by option, without dashes, in the order written."""

    name: str
    line: int
    words: Mapping[str, tuple[str, ...]]


class Plan(NamedTuple):
    """A file's title ('' where it has none) and workloads."""

    title: str
    entries: tuple[Entry, ...]


def read_plan(content: bytes, name: str) -> Plan:
    """The plan in a file of that name; `UsageError` names the line of what is wrong."""
    return _Reader(name).plan(_root(content, name))


def shown_name(text: str, what: str) -> str:
    """A title or a name, whatever its script; `UsageError` for what steers a terminal or turns the
    direction of the page."""
    text = text.strip()
    if not text:
        raise UsageError(f"{what} is empty; name one, or leave it out")
    if len(text) > LONGEST_NAME:
        raise UsageError(f"{what} has {len(text)} characters; take {LONGEST_NAME} at most")
    if any(unicodedata.category(one) in ("Cc", "Cs") or one in _BIDI for one in text):
        raise UsageError(f"{what} has characters that cannot be shown: {text!r}")
    return text


def _root(content: bytes, name: str) -> Node | None:
    import yaml  # nobody else waits for it

    if len(content) > MOST_BYTES:
        raise UsageError(f"{name} is larger than a plan can be ({MOST_BYTES // 2**20} MiB)")
    try:
        return yaml.compose(content.decode("utf-8-sig"), Loader=yaml.SafeLoader)
    except UnicodeDecodeError:
        raise UsageError(f"{name} is no UTF-8 text; save it as UTF-8") from None
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        what = getattr(error, "problem", None) or "it cannot be read"
        raise UsageError(f"{name}{where}: no YAML: {one_line(str(what))}") from None


class _Reader:
    """Reads the nodes of one file, so that whatever is wrong has a line.

    Texts stay as they are written: `region: no` is no truth value, and 1e6 no word.
    """

    def __init__(self, file: str) -> None:
        self._file = file

    def plan(self, root: Node | None) -> Plan:
        from yaml import SequenceNode

        if root is None:
            raise UsageError(f"{self._file} is empty; list what is to be sized under `workloads:`")
        parts = {key: value for key, value, _ in self._pairs(root, "a plan")}
        for key in parts:
            if key not in _KEYS:
                raise self._wrong(root, str(unknown_name("key of a plan", key, _KEYS)))
        title = self._title(parts["title"]) if "title" in parts else ""
        defaults = self._words(parts["defaults"], "defaults") if "defaults" in parts else {}
        listed = parts.get("workloads")
        if not isinstance(listed, SequenceNode) or not listed.value:
            raise self._wrong(listed or root, "`workloads:` must list at least one workload")
        if len(listed.value) > MOST_WORKLOADS:
            raise self._wrong(listed, f"more than {MOST_WORKLOADS} workloads; split the plan")
        return Plan(title, self._entries(listed.value, defaults))

    def _entries(
        self, nodes: list[Node], defaults: Mapping[str, tuple[str, ...]]
    ) -> tuple[Entry, ...]:
        found: dict[str, Entry] = {}
        for number, node in enumerate(nodes, start=1):
            words = {**defaults, **self._words(node, f"workload {number}")}
            one = self._entry(node, number, words)
            if one.name in found:
                raise self._wrong(node, f"a second workload '{one.name}' (the first: line "
                                        f"{found[one.name].line}); name it otherwise")  # fmt: skip
            found[one.name] = one
        return tuple(found.values())

    def _entry(self, node: Node, number: int, words: dict[str, tuple[str, ...]]) -> Entry:
        said = " ".join(words.pop(_NAME, ()))
        try:
            name = shown_name(said, "name") if said else _usual_name(number, words)
        except UsageError as error:
            raise self._wrong(node, str(error)) from None
        return Entry(name, node.start_mark.line + 1, words)

    def _title(self, node: Node) -> str:
        try:
            return shown_name(" ".join(self._texts(node, "title")), "title")
        except UsageError as error:
            raise self._wrong(node, str(error)) from None

    def _words(self, node: Node, what: str) -> dict[str, tuple[str, ...]]:
        """Each option as in `recommend`, with _ or -."""
        found: dict[str, tuple[str, ...]] = {}
        for key, value, at in self._pairs(node, what):
            name = key.replace("-", "_").lower()
            if name in found:
                raise self._wrong(at, f"{what} says {key} twice")
            found[name] = self._texts(value, key)
        return found

    def _pairs(self, node: Node, what: str) -> Iterator[tuple[str, Node, Node]]:
        from yaml import MappingNode, ScalarNode

        if not isinstance(node, MappingNode):
            raise self._wrong(node, f"{what} must be written as `key: value` lines")
        mapping: MappingNode = node
        for key, value in mapping.value:
            if not isinstance(key, ScalarNode) or key.value == "<<":
                raise self._wrong(key, f"{what} has a key that is no word")
            yield str(key.value), value, key

    def _texts(self, node: Node, key: str) -> tuple[str, ...]:
        """One text, or several of a list."""
        from yaml import ScalarNode, SequenceNode

        nodes = node.value if isinstance(node, SequenceNode) else [node]
        if not nodes or not all(isinstance(one, ScalarNode) and one.value for one in nodes):
            raise self._wrong(node, f"{key} takes a value, or a list of values; leave it out "
                                    "where there is none")  # fmt: skip
        return tuple(str(one.value) for one in nodes)

    def _wrong(self, node: Node, said: str) -> UsageError:
        return UsageError(f"{self._file}, line {node.start_mark.line + 1}: {said}")


def _usual_name(number: int, words: Mapping[str, Any]) -> str:
    told = " ".join(" ".join(words.get(key, ())) for key in ("model", "task")).strip()
    return shown_name(f"{number}. {told}"[:LONGEST_NAME], "name")
