"""Questions as frozen records whose fields describe themselves, selected by `task`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar, dataclass_transform

from msgspec import Struct, StructMeta, structs

from advisor.domain.words import LanguageTask
from advisor.errors import UsageError, unknown_name
from advisor.messages import FieldName, Message, option_name
from advisor.questions.fields import Choice, Flag, Kind, error_in

# Code of the error for fields that are valid each and contradict each other.
CONTRADICTION = "contradiction"


class Needed:
    """The default of a field that must be given."""


class Field(NamedTuple):
    """One field: its help in plain English, its kind, and what None means (`usual`). `where` is 'both', or
    'cli' or 'http' for a field of one of them; a field that is only `required_of_clients` can be given in
    another way on the command line. `section` is its heading in `--help`. `name` is its name for users,
    `attribute` that in the record, which has `value` where the field was left out. A field that is not
    `in_document` is replaced in an answer's document by what it was resolved to."""

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
        """True if it is a flag whose default is neither yes nor no, so that "no" has a meaning."""
        return isinstance(self.kind, Flag) and self.default is None

    @property
    def required(self) -> bool:
        """True if it must be given."""
        return self.default is Needed

    @property
    def option(self) -> str:
        """Its option on the command line: '--max-price'."""
        return option_name(self.name)


def ask(
    help: str,
    kind: Kind,
    usual: str = "",
    where: str = "both",
    section: str = "Options",
    *,
    default: Any = None,
    required: bool = False,
    name: str = "",
    value: Any = Needed,
    in_document: bool = True,
) -> Any:
    """Declare a field of a question, which is left to the advisor (None) unless it says otherwise."""
    value = default if value is Needed else value
    return Field(help, kind, section, default, usual, where, required, name, value, in_document)


@dataclass_transform(kw_only_default=True, frozen_default=True)
class _QuestionType(StructMeta):
    """Replaces the `Field`s in a question's body by their values, and keeps the `Field`s aside."""

    def __new__(mcls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> Any:
        own = {key: value for key, value in body.items() if isinstance(value, Field)}
        for attribute, field in own.items():
            own[attribute] = field._replace(name=field.name or attribute, attribute=attribute)
            body[attribute] = field.value
            if field.value is Needed:
                del body[attribute]
        made: Any = super().__new__(mcls, name, bases, body, frozen=True, kw_only=True)
        inherited: Mapping[str, Field] = getattr(bases[0], "declared", {})
        made.declared = {**inherited, **own}
        order = dict.fromkeys([*body.get("asks", made.asks or inherited), *own])
        made.asks = tuple(order)
        made.fields = {made.declared[each].name: made.declared[each] for each in order}
        return made


class Question(Struct, metaclass=_QuestionType):
    """A question as typed values; None leaves a field to the advisor. A question that contradicts itself
    cannot be made: `__post_init__` raises `UsageError`. `fields` are the ones that users give, by their names
    for users; `asks` has their attributes in order, where a question does not take all that it inherits.
    Fields that a class declares come last."""

    declared: ClassVar[Mapping[str, Field]] = {}
    fields: ClassVar[Mapping[str, Field]] = {}
    asks: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def refuse(cls, values: Mapping[str, Any]) -> None:
        """`UsageError` for values that are wrong whatever the missing fields would be."""

    @classmethod
    def refuse_given(cls, values: Mapping[str, Any]) -> None:
        """`UsageError` for given fields that have no meaning beside others, whatever their values."""

    def __post_init__(self) -> None:
        """`UsageError` for fields that contradict each other."""

    def differs(self, field: Field) -> bool:
        """True if a field has to be given to ask this question: its value is not the default."""
        return field.required or bool(getattr(self, field.attribute) != field.value)

    def without(self, names: Iterable[str]) -> Self:
        """The question with the defaults of these attributes."""
        defaults = dict(zip(self.__struct_fields__[::-1], self.__struct_defaults__[::-1], strict=False))
        return structs.replace(self, **{name: defaults[name] for name in names})

    def replace(self, **changes: Any) -> Self:
        """The question with some attributes changed; the same checks apply."""
        return structs.replace(self, **changes)


Q = TypeVar("Q", bound=Question)


class ByTask(NamedTuple, Generic[Q]):
    """The questions of one command, each with its own tasks. Without a task the first question is meant,
    which may have a default task."""

    title: str
    kinds: tuple[type[Q], ...]

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks of all questions."""
        return tuple(task for kind in self.kinds for task in tasks_of(kind))

    @property
    def fields(self) -> Mapping[str, Field]:
        """Every field, as the first question that has it declares it; `task` takes the tasks of all."""
        fields = {name: field for kind in self.kinds[::-1] for name, field in kind.fields.items()}
        order = dict.fromkeys(name for kind in self.kinds for name in kind.fields)
        task = fields["task"]._replace(kind=Choice("task", self.tasks))
        return {name: fields[name] for name in order} | {"task": task}

    def declarations(self, name: str) -> list[Field]:
        """Every different declaration of a field among the questions."""
        if name == "task":
            return [self.fields[name]]
        return distinct(kind.fields[name] for kind in self.kinds if name in kind.fields)

    def kind_of(self, task: object) -> type[Q]:
        """The question of a task, in any case; `UsageError` for an unknown task."""
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
        """The error for a field that belongs only to other tasks than the given one."""
        tasks = tuple(task for kind in self.kinds if name in kind.fields for task in tasks_of(kind))
        hint = _WAYS_OUT.get(name, "leave it out")
        if name not in _WAYS_OUT and set(tasks) <= set(LanguageTask):
            hint = Message("for a language model use {task} {name}", task=FieldName("task"), name=tasks[0])
        error = error_in(name, "{field} goes with {task} {tasks} only", tasks=tasks, hint=hint)
        error.code = CONTRADICTION
        return error


# A hint for cards that no cloud sells, with a host that the user describes.
OWN_MACHINE = Message(
    "name instances with {instance}; a machine of your own is described in a file: `advisor catalog import "
    "own_machines.csv` (docs/examples has one)",
    instance=FieldName("instance"),
)
# Field of another task -> what to use instead.
_WAYS_OUT: Mapping[str, Message | str] = {
    "gpu": OWN_MACHINE,
    "max_latency_ms": Message(
        "for a whole answer of a language model use {e2e}, for its first token {ttft}, for each next {tpot}",
        e2e=FieldName("max_e2e_s"),
        ttft=FieldName("max_ttft_ms"),
        tpot=FieldName("max_tpot_ms"),
    ),
    **dict.fromkeys(
        ("target_requests_per_s", "users"),
        Message(
            "for a language model use {task} generation, for a network {target} 300 (images a second)",
            task=FieldName("task"),
            target=FieldName("target_throughput"),
        ),
    ),
    "epochs": Message(
        "for a network write {task} training; for a language model {tokens}: tokens of the data set, times "
        "the epochs",
        task=FieldName("task"),
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
        "a language model is tuned in 16 bits; {method} qlora keeps its weights in 4 bits",
        method=FieldName("method"),
    ),
    "image_size": Message("the input of a network is {input}", input=FieldName("input")),
}
Kinds = type[Q] | ByTask[Q]
T = TypeVar("T")


def distinct(values: Iterable[T]) -> list[T]:
    """Each value once, in order; they need not be hashable."""
    every = list(values)
    return [value for index, value in enumerate(every) if value not in every[:index]]


def tasks_of(kind: type[Question]) -> tuple[str, ...]:
    """The tasks of a question."""
    choice = kind.fields["task"].kind
    return choice.names if isinstance(choice, Choice) else ()


def kind_for(kinds: Kinds[Q], task: object, names: Iterable[str]) -> type[Q]:
    """The question of a task; `UsageError` if one of the `names` is a field of other tasks only. `kinds` that
    is one question is returned as it is."""
    if not isinstance(kinds, ByTask):
        return kinds
    kind = kinds.kind_of(task)
    for name in names:
        if name not in kind.fields and name in kinds.fields:
            raise kinds.refusal(name)
    return kind


def kinds_of(kinds: Kinds[Any]) -> tuple[type[Question], ...]:
    """All questions among `kinds`."""
    return kinds.kinds if isinstance(kinds, ByTask) else (kinds,)
