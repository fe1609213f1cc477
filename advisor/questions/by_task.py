"""A question by task: what one command takes is one of several questions, and `task` says which."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from advisor.errors import UsageError, unknown_name
from advisor.messages import FieldName, Message
from advisor.questions.fields import Choice, wrong
from advisor.questions.question import Field, Question

Q = TypeVar("Q", bound=Question)
# The code of an error where each field can be read, and they do not go together.
CONTRADICTION = "contradiction"


class ByTask(NamedTuple, Generic[Q]):
    """The questions that a command takes, each with a choice of its own tasks; without a task the
    first one is meant, which may have a usual task."""

    title: str
    kinds: tuple[type[Q], ...]

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks of all."""
        return tuple(task for kind in self.kinds for task in tasks_of(kind))

    @property
    def fields(self) -> Mapping[str, Field]:
        """Every field, as the first question that has it declares it; `task` takes all tasks."""
        fields = {name: field for kind in self.kinds[::-1] for name, field in kind.fields.items()}
        order = dict.fromkeys(name for kind in self.kinds for name in kind.fields)
        task = fields["task"]._replace(kind=Choice("task", self.tasks))
        return {name: fields[name] for name in order} | {"task": task}

    def declarations(self, name: str) -> list[Field]:
        """A field in each way that the questions declare it."""
        if name == "task":
            return [self.fields[name]]
        declared: list[Field] = []
        for kind in self.kinds:
            field = kind.fields.get(name)
            if field is not None and field not in declared:
                declared.append(field)
        return declared

    def kind_of(self, task: object) -> type[Q]:
        """The question of a task in whatever case; `UsageError` for a text that is none."""
        if not isinstance(task, str):  # the question itself says what is wrong with it
            return self.kinds[0]
        name = task.strip().lower()
        for kind in self.kinds:
            if name in tasks_of(kind):
                return kind
        raise unknown_name("task", task, self.tasks, field="task")

    def refusal(self, name: str) -> UsageError:
        """Of a field that belongs to other tasks than the one that is asked for."""
        tasks = tuple(task for kind in self.kinds if name in kind.fields for task in tasks_of(kind))
        error = wrong(
            name,
            "{field} goes with {task} {tasks} only",
            task=FieldName("task"),
            tasks=tasks,
            hint=OWN_MACHINE if name == "gpu" else "leave it out",
        )
        error.code = CONTRADICTION
        return error


# The way to a card that no cloud sells, with a host of its own.
OWN_MACHINE = Message(
    "leave it out, or describe the machine: `advisor catalog import own_machines.csv` "
    "(docs/examples has one), and name it as {instance}",
    instance=FieldName("instance"),
)
Kinds = type[Q] | ByTask[Q]


def tasks_of(kind: type[Question]) -> tuple[str, ...]:
    """The tasks that a question can be about."""
    choice = kind.fields["task"].kind
    return choice.names if isinstance(choice, Choice) else ()


def kind_for(kinds: Kinds[Q], task: object, names: Iterable[str]) -> type[Q]:
    """The question that a task asks; `UsageError` for one of the `names` that is a field of other
    tasks. A question that has no choice of tasks is its own."""
    if not isinstance(kinds, ByTask):
        return kinds
    kind = kinds.kind_of(task)
    for name in names:
        if name not in kind.fields and name in kinds.fields:
            raise kinds.refusal(name)
    return kind


def kinds_of(kinds: Kinds[Any]) -> tuple[type[Question], ...]:
    """All questions that may be meant."""
    return kinds.kinds if isinstance(kinds, ByTask) else (kinds,)
