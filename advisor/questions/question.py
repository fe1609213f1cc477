"""A question: a frozen record whose fields know what they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, dataclass_transform

from advisor.messages import option_name
from advisor.questions.fields import Flag

if TYPE_CHECKING:
    from advisor.questions.fields import Kind


class _Missing:
    """The default of a field that nobody can leave out."""


class Field(NamedTuple):
    """One field: its help in plain English, its kind, and what None means (`usual`).

    `where` is 'both', or 'cli' or 'http' for what the other does not have; a field that is
    `required_of_clients` has another way to be said on the command line. `section` is the heading
    that `--help` lists it under.
    """

    help: str
    kind: Kind
    section: str
    default: Any
    usual: str
    where: str
    required_of_clients: bool
    name: str = ""

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
) -> Any:
    """Declare a field of a question; one without a default must be given."""
    return Field(help, kind, section, default, usual, where, required)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(ask,))
class Question:
    """What is asked, as typed values; None is left to the advisor.

    A question that contradicts itself cannot be made: `__post_init__` raises `UsageError`. Its
    fields are those of its first parent, its own, then those of its other parents.
    """

    fields: ClassVar[Mapping[str, Field]] = {}

    def __init_subclass__(cls) -> None:
        declared = {name: vars(cls)[name] for name in vars(cls).get("__annotations__", ())}
        own = {name: field._replace(name=name) for name, field in declared.items()}
        first, *others = (getattr(base, "fields", {}) for base in cls.__bases__)
        fields = {**first, **own}
        for further in others:
            fields = {**fields, **further, **fields}
        cls.fields = fields

    def __init__(self, **values: Any) -> None:
        fields = self.fields
        for name in values.keys() - fields:
            raise TypeError(f"{type(self).__name__} has no field {name}")
        for name, field in fields.items():
            value = values.get(name, field.default)
            if value is _Missing:
                raise TypeError(f"{type(self).__name__} needs {name}")
            vars(self)[name] = value
        self.__post_init__()

    @classmethod
    def refuse(cls, values: Mapping[str, Any]) -> None:
        """`UsageError` for what a field that is missing would not mend."""

    def __post_init__(self) -> None:
        """Refuse fields that do not go together."""

    def replace(self, **changes: Any) -> Self:
        """The question with some fields changed; what it refuses is refused again."""
        return type(self)(**vars(self) | changes)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"cannot change {name} of a question")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((type(self), *vars(self).values()))

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({shown})"
