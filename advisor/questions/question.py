"""Questions as frozen records whose fields describe themselves, chosen by `task`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar, dataclass_transform

from msgspec import Struct, StructMeta, structs

from advisor.domain.words import LanguageTask
from advisor.errors import UsageError, unknown_name
from advisor.messages import FieldName, Message, option_name
from advisor.questions.fields import Choice, Flag, Kind, wrong

# The code of an error where each field can be read, and they do not go together.
CONTRADICTION = "contradiction"


class _Missing:
    """The default of a field that nobody can leave out."""


class Field(NamedTuple):
    """One field: its help in plain English, its kind, and what None means (`usual`).

    `where` is 'both', or 'cli' or 'http' for what the other does not have; a field that is
    `required_of_clients` has another way to be said on the command line. `section` is the heading that
    `--help` lists it under. `name` is what users call it, `attribute` what the record does, where `value` is
    what stands for a field that was left out. What is not `in_document` is in no answer's document: what
    became of it is."""

    help: str
    kind: Kind
    section: str
    default: Any
    usual: str
    where: str
    required_of_clients: bool
    name: str
    value: Any
    in_document: bool
    attribute: str = ""

    @property
    def is_open(self) -> bool:
        """Whether it is yes, no, or left open: then no is an answer too."""
        return isinstance(self.kind, Flag) and self.default is None

    @property
    def required(self) -> bool:
        """Whether nobody can leave it out."""
        return self.default is _Missing

    @property
    def option(self) -> str:
        """'--max-price'."""
        return option_name(self.name)


def ask(
    help: str,
    kind: Kind,
    usual: str = "",
    where: str = "both",
    section: str = "Options",
    *,
    default: Any = _Missing,
    required: bool = False,
    name: str = "",
    value: Any = _Missing,
    in_document: bool = True,
) -> Any:
    """Declare a field of a question; one without a default must be given."""
    value = default if value is _Missing else value
    return Field(help, kind, section, default, usual, where, required, name, value, in_document)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(ask,))
class _QuestionType(StructMeta):
    """Takes the fields out of a question's body: the record has their values alone."""

    def __new__(mcls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> Any:
        own = {key: value for key, value in body.items() if isinstance(value, Field)}
        for attribute, field in own.items():
            own[attribute] = field._replace(name=field.name or attribute, attribute=attribute)
            body[attribute] = field.value
            if field.value is _Missing:
                del body[attribute]
        made: Any = super().__new__(mcls, name, bases, body, frozen=True, kw_only=True)
        inherited: Mapping[str, Field] = getattr(bases[0], "declared", {})
        made.declared = {**inherited, **own}
        order = dict.fromkeys([*body.get("asks", made.asks or inherited), *own])
        made.asks = tuple(order)
        made.fields = {made.declared[each].name: made.declared[each] for each in order}
        return made


class Question(Struct, metaclass=_QuestionType):
    """What is asked, as typed values; what is None is left to the advisor.

    A question that contradicts itself cannot be made: `__post_init__` raises `UsageError`. `fields` are those
    that users give, by the names they give them; `asks` are their attributes, in order, where a question
    takes not all that it inherits, and its own come last."""

    declared: ClassVar[Mapping[str, Field]] = {}
    fields: ClassVar[Mapping[str, Field]] = {}
    asks: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def refuse(cls, values: Mapping[str, Any]) -> None:
        """`UsageError` for what a field that is missing would not mend."""

    @classmethod
    def refuse_given(cls, values: Mapping[str, Any]) -> None:
        """`UsageError` for fields that mean nothing beside others, whatever they say."""

    def __post_init__(self) -> None:
        """Refuse fields that do not go together."""

    def differs(self, field: Field) -> bool:
        """Whether a field is not as it would be anyway."""
        return field.required or bool(getattr(self, field.attribute) != field.value)

    def replace(self, **changes: Any) -> Self:
        """The question with some attributes changed; what it refuses is refused again."""
        return structs.replace(self, **changes)


Q = TypeVar("Q", bound=Question)


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
        error = unknown_name("task", task, self.tasks, field="task")
        if LanguageTask.FINETUNING in error.suggestions:
            error.hint = Message("did you mean finetuning (of a language model) or training (of a network)?")
        raise error

    def refusal(self, name: str) -> UsageError:
        """The error of a field that belongs to other tasks than the one that is asked for."""
        tasks = tuple(task for kind in self.kinds if name in kind.fields for task in tasks_of(kind))
        hint = _WAYS_OUT.get(name, "leave it out")
        if name not in _WAYS_OUT and set(tasks) <= set(LanguageTask):
            hint = Message("for a language model use {task} {name}", task=FieldName("task"), name=tasks[0])
        error = wrong(name, "{field} goes with {task} {tasks} only", tasks=tasks, hint=hint)
        error.code = CONTRADICTION
        return error


# The way to a card that no cloud sells, with a host of its own.
OWN_MACHINE = Message(
    "name instances with {instance}; a machine of your own is described in a file: `advisor catalog import "
    "own_machines.csv` (docs/examples has one)",
    instance=FieldName("instance"),
)
# What a field of other tasks was meant for.
_WAYS_OUT: Mapping[str, Message | str] = {
    "gpu": OWN_MACHINE,
    "max_latency_ms": Message(
        "for a language model use {ttft} or {tpot}",
        ttft=FieldName("max_ttft_ms"),
        tpot=FieldName("max_tpot_ms"),
    ),
    "epochs": Message(
        "for a language model write {tokens}: tokens of the data set, times the epochs",
        tokens=FieldName("tokens"),
    ),
    **dict.fromkeys(
        ("dataset", "dataset_name"),
        Message(
            "for a language model write {tokens}: English text has one for about 4 bytes",
            tokens=FieldName("tokens"),
        ),
    ),
    **dict.fromkeys(
        ("max_count", "max_nodes"),
        Message("a language model is tuned on one instance here: several that share a run are not modelled"),
    ),
    "tokens": Message(
        "for a network write {samples}: the {tokens} divided by those of a sample (bert: 128)",
        samples=FieldName("samples"),
        tokens=FieldName("tokens"),
    ),
    "sequence": Message("for a network write {input} seq:512", input=FieldName("input")),
    "precision": Message(
        "a language model is tuned in 16 bits; {method} qlora keeps its weights in 4",
        method=FieldName("method"),
    ),
    "image_size": Message("the input of a network is {input}", input=FieldName("input")),
}
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
