"""Records behave as dataclasses do, whatever they are made of."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.records import dataclass, field, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Ours:
    """A record of this kind."""

    name: str
    size: float = 1.0
    tags: tuple[str, ...] = ()
    extra: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.size < 0:
            raise ValueError("size")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Theirs:
    """The same, made by the standard library."""

    name: str
    size: float = 1.0
    tags: tuple[str, ...] = ()
    extra: dict[str, int] = dataclasses.field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class OurChild(Ours):
    """A record with a parent, whose check it makes before its own."""

    colour: str = "red"
    tags: tuple[str, ...]

    def __post_init__(self) -> None:
        Ours.__post_init__(self)
        if not self.colour:
            raise ValueError("colour")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TheirChild(Theirs):
    """The same, made by the standard library."""

    colour: str = "red"
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Placed:
    """A record whose fields are given by their place."""

    first: int
    second: int = 2


@dataclass(frozen=True, slots=True)
class Single:
    """A record with one field."""

    only: float


@dataclass(slots=True)
class Changing:
    """A record that is filled as one goes."""

    found: list[int] = field(default_factory=list)
    best: int | None = None


VALUES = st.fixed_dictionaries(
    {"name": st.text()},
    optional={
        "size": st.floats(min_value=0),
        "tags": st.lists(st.text()).map(tuple),
        "extra": st.dictionaries(st.text(), st.integers()),
    },
)


@given(VALUES, VALUES)
def test_a_record_is_what_a_dataclass_is(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Fields, words, comparison and copies are those of the standard library's."""
    ours, theirs = Ours(**one), Theirs(**one)
    assert dataclasses.asdict(ours) == dataclasses.asdict(theirs)
    assert repr(ours) == repr(theirs).replace("Theirs", "Ours")
    assert (ours == Ours(**other)) == (theirs == Theirs(**other))
    assert ours == copy.deepcopy(ours) == pickle.loads(pickle.dumps(ours))
    assert ours != theirs
    changed = dataclasses.asdict(dataclasses.replace(theirs, **other))
    assert dataclasses.asdict(replace(ours, **other)) == changed
    assert dataclasses.asdict(dataclasses.replace(ours, **other)) == changed


@pytest.mark.parametrize("values", [{"name": "a", "tags": ()}, {"tags": (), "colour": "blue"}])
def test_a_child_has_the_fields_of_its_parent_first(values: dict[str, Any]) -> None:
    """In the order, with the defaults and in the words of the standard library."""
    values = {"name": "a"} | values
    ours, theirs = OurChild(**values), TheirChild(**values)
    assert repr(ours) == repr(theirs).replace("Theirs", "Ours").replace("TheirChild", "OurChild")
    assert inspect.signature(OurChild) == inspect.signature(TheirChild)
    assert dataclasses.asdict(ours) == dataclasses.asdict(theirs)
    assert ours == pickle.loads(pickle.dumps(ours)) == replace(ours)
    assert ours != Ours(**{"name": "a", "tags": ()})


@pytest.mark.parametrize("wrong", [{"size": -1.0}, {"colour": ""}])
def test_a_child_checks_what_its_parent_checks(wrong: dict[str, Any]) -> None:
    """And what is its own."""
    with pytest.raises(ValueError, match=next(iter(wrong))):
        OurChild(name="a", tags=(), **wrong)


def test_equal_records_are_one_key() -> None:
    """A record stands for itself in a dictionary."""
    assert {Placed(1), Placed(1, 2), Placed(first=1, second=3)} == {Placed(1), Placed(1, 3)}
    assert len({Single(1.0), Single(1.0)}) == 1


def test_tools_see_a_dataclass() -> None:
    """What asks for fields or a signature gets the standard library's answer."""
    assert dataclasses.is_dataclass(Ours)
    assert [f.name for f in dataclasses.fields(Ours)] == [
        f.name for f in dataclasses.fields(Theirs)
    ]
    assert inspect.signature(Ours) == inspect.signature(Theirs)
    assert Ours.__doc__ == "A record of this kind."
    assert Ours.__match_args__ == ()
    assert Placed.__match_args__ == ("first", "second")


@pytest.mark.parametrize(
    "wrong",
    [{}, {"size": 1.0}, {"name": "a", "colour": 1}, {"name": "a", "size": 1.0, "tags": (), "b": 1}],
)
def test_wrong_fields_are_refused(wrong: dict[str, Any]) -> None:
    """A field too few or unknown is a mistake, however many there are."""
    with pytest.raises(TypeError, match="Ours"):
        Ours(**wrong)


def test_wrong_places_are_refused() -> None:
    """Values by place are not more than fields, nor given twice, nor for fields to be named."""
    make, named_only = Placed, Ours  # type: Any, Any
    for values, named in [((1, 2, 3), {}), ((1,), {"first": 1})]:
        with pytest.raises(TypeError, match="Placed"):
            make(*values, **named)
    with pytest.raises(TypeError, match="by place"):
        named_only("a")


def test_a_frozen_record_stays() -> None:
    """Neither a field nor anything else can be set or deleted."""
    record: Any = Ours(name="a")
    for name in ("name", "new"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(record, name, 1)
        with pytest.raises(dataclasses.FrozenInstanceError):
            delattr(record, name)
    with pytest.raises(ValueError, match="size"):
        replace(record, size=-1.0)


def test_a_record_that_changes_is_no_key() -> None:
    """One that may be set has its own list, and no hash."""
    one, other = Changing(), Changing()
    one.found.append(1)
    one.best = 3
    assert other == Changing()
    assert one != other
    with pytest.raises(TypeError, match="unhashable"):
        hash(one)


def test_a_default_belongs_to_each_record() -> None:
    """What a factory makes is not shared."""
    assert Ours(name="a").extra is not Ours(name="a").extra


def test_other_kinds_are_left_to_the_standard_library() -> None:
    """A record without slots is not made here."""
    with pytest.raises(TypeError, match="slots"):
        dataclass(frozen=True, slots=False)


def test_a_record_made_often_behaves_as_before():
    @dataclass(frozen=True, slots=True)
    class Often:
        name: str
        size: float = 1.0

        def __post_init__(self) -> None:
            if self.size < 0:
                raise ValueError("size")

    few = [Often("a"), Often(name="a", size=2.0)]
    for _ in range(1000):
        Often("many")
    assert [Often("a"), Often(name="a", size=2.0)] == few
    with pytest.raises(ValueError, match="size"):
        Often("a", -1.0)
    for values in ({}, {"name": "a", "colour": 1}):
        with pytest.raises(TypeError, match="Often"):
            Often(**values)
    with pytest.raises(dataclasses.FrozenInstanceError):
        few[0].size = 3.0
