"""Frozen records that cost little to define: `dataclasses.dataclass` without generated code.

`dataclasses.dataclass` writes and compiles eight functions for each class, half a millisecond of
work. An answer imports some eighty records: that was a fifth of the time a user waited. Here they
get closures over the names of their fields instead, in a tenth of that; one of which hundreds are
made then gets a written `__init__`, which takes half as long. Type checkers see
`dataclasses.dataclass` itself; `fields`, `asdict`, `inspect.signature`, copies and pickles work
as there; `dataclasses` itself is only imported for those.

`NamedTuple` is `typing.NamedTuple` without its check of every annotation, which takes half of the
time that a class takes.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any, cast

__all__ = ["NamedTuple", "dataclass", "field", "replace"]

Names = tuple[str, ...]
Values = dict[str, Any]


def _dataclass(
    *, slots: bool, frozen: bool = False, kw_only: bool = False
) -> Callable[[type[Any]], type[Any]]:
    """As `dataclasses.dataclass`, for records that have slots and whose parents are such records. A
    method calls its parent's by name: `super()` knows the class before it got its slots."""
    if not slots:
        raise TypeError("records have slots; for others take dataclasses.dataclass")
    return lambda cls: _made(cls, frozen, kw_only)


def _replace(record: Any, /, **changes: Any) -> Any:
    """The record with some fields changed; what it refuses is refused again."""
    values = {name: getattr(record, name) for name in record.__slots__}
    values.update(changes)
    return type(record)(**values)


class _NamedTupleType(type):
    """Makes a named tuple of a class with annotations."""

    def __new__(cls, name: str, _bases: tuple[type[Any], ...], space: Values) -> type[Any]:
        own = space.get("__annotations__", {})
        given = [space[one] for one in own if one in space]
        make: Any = namedtuple
        made: type[Any] = make(name, own, defaults=given, module=space["__module__"])
        made.__annotations__ = own
        for key, value in space.items():
            if key not in own and key not in _OF_THE_TUPLE:
                setattr(made, key, value)
        return made


_OF_THE_TUPLE = ("__annotations__", "__module__")

if TYPE_CHECKING:
    from dataclasses import dataclass, field, replace
    from typing import NamedTuple
else:
    NamedTuple = type.__new__(_NamedTupleType, "NamedTuple", (), {})


class _Made(NamedTuple):
    """A default that is made anew for each record."""

    default_factory: Callable[[], Any]


if not TYPE_CHECKING:
    dataclass, field, replace = _dataclass, _Made, _replace


def _made(cls: type[Any], frozen: bool, kw_only: bool) -> type[Any]:
    """The class once more with slots, which leave no room for the defaults of its fields."""
    space: Values = {key: value for key, value in vars(cls).items() if key not in _OF_NO_SLOTS}
    own = space.get("__annotations__", {})
    given = {name: space.pop(name) for name in own if name in space}
    for parent in cls.__bases__:
        if late := vars(parent).get("__dataclass_fields__"):
            given = {n: one for n, one in late.given.items() if n not in own} | given
            own = parent.__annotations__ | own
    names: Names = tuple(own)
    space |= {
        "__qualname__": cls.__qualname__,
        "__annotations__": own,
        "__slots__": names,
        "__match_args__": () if kw_only else names,
        "__dataclass_fields__": _Late(given, kw_only, attrgetter("__dataclass_fields__")),
        "__signature__": _Late(given, kw_only, _signature),
        "__setstate__": _set_state,
    }
    space |= _FROZEN if frozen else {"__hash__": None}
    kind: Any = type(cls)
    made: type[Any] = kind(cls.__name__, cls.__bases__, _methods(names) | space)
    made.__init__ = _initializer(made, names, given, () if kw_only else names)
    return made


_OF_NO_SLOTS = ("__dict__", "__weakref__")


def _initializer(
    cls: type[Any], names: Names, given: Values, by_place: Names
) -> Callable[..., None]:
    """`__init__`: every value into its slot, then what the record checks of them."""
    slots = [(getattr(cls, name).__set__, name) for name in names]
    plain = not any(isinstance(one, _Made) for one in given.values())
    check, count = getattr(cls, "__post_init__", None), len(names)
    made = 0

    def __init__(self: Any, /, *placed: Any, **values: Any) -> None:
        nonlocal made
        made += 1
        if made == _OFTEN and plain:
            cls.__init__ = _written(cls, names, given, by_place)
        if placed:
            values = _by_name(cls, by_place, placed, values)
        if len(values) != count:
            values = given | values if plain else _completed(given, values)
            _refuse_others(cls, names, values)
        try:
            for put, name in slots:
                put(self, values[name])
        except KeyError as missing:
            raise TypeError(f"{cls.__name__}() needs {missing}") from None
        if check is not None:
            check(self)

    return __init__


def _refuse_others(cls: type[Any], names: Names, values: Values) -> None:
    if len(values) > len(names):
        raise TypeError(f"{cls.__name__}() has no {', '.join(values.keys() - set(names))}")


# Writing one takes as long as it saves of so many.
_OFTEN = 200


def _written(cls: type[Any], names: Names, given: Values, by_place: Names) -> Callable[..., None]:
    """The same `__init__` as code of its own; for records whose defaults are plain values."""
    placed = [name for name in names if name in by_place]
    named = [name for name in names if name not in by_place]
    ordered = [*placed, *(["*", *named] if named else [])]
    parameters = ", ".join(f"{one}=_given_{one}" if one in given else one for one in ordered)
    lines = [f"    _put_{name}(_self, {name})" for name in names]
    if hasattr(cls, "__post_init__"):
        lines.append("    _check(_self)")
    space: Values = {f"_put_{name}": getattr(cls, name).__set__ for name in names}
    space |= {f"_given_{name}": value for name, value in given.items()}
    space["_check"] = getattr(cls, "__post_init__", None)
    exec("\n".join([f"def __init__(_self, /, {parameters}):", *lines]), space)
    written = space["__init__"]
    written.__qualname__ = f"{cls.__qualname__}.__init__"  # what its errors name
    return cast("Callable[..., None]", written)


def _completed(given: Values, values: Values) -> Values:
    """The values, and those that are not among them as `field(default_factory=...)` makes them."""
    for name in given.keys() - values.keys():
        one = given[name]
        values[name] = one.default_factory() if isinstance(one, _Made) else one
    return values


def _by_name(cls: type[Any], names: Names, placed: tuple[Any, ...], values: Values) -> Values:
    """All values by name, those first that were given by their place."""
    first = dict(zip(names, placed, strict=False))
    if len(first) != len(placed):
        raise TypeError(f"{cls.__name__}() takes {len(names)} values by place, not {len(placed)}")
    if first.keys() & values.keys():
        raise TypeError(f"{cls.__name__}() got {', '.join(first.keys() & values.keys())} twice")
    return first | values


def _methods(names: Names) -> Values:
    """What compares, hashes, shows and copies a record: by its fields."""
    several = attrgetter(*names) if len(names) > 1 else None

    def state(self: Any) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in names)

    values: Callable[[Any], tuple[Any, ...]] = several or state

    def __eq__(self: Any, other: Any) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return self is other or values(self) == values(other)

    def __hash__(self: Any) -> int:
        return hash(values(self))

    def __repr__(self: Any) -> str:
        shown = (f"{n}={one!r}" for n, one in zip(names, values(self), strict=True))
        return f"{self.__class__.__qualname__}({', '.join(shown)})"

    def __getstate__(self: Any) -> tuple[Any, ...]:
        return values(self)

    made = (__eq__, __hash__, __repr__, __getstate__)
    return {method.__name__: method for method in made}


def _refuse_change(_self: Any, name: str, *_value: Any) -> None:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot change field {name!r}")


_FROZEN = {"__setattr__": _refuse_change, "__delattr__": _refuse_change}


def _set_state(self: Any, state: tuple[Any, ...]) -> None:
    for name, value in zip(self.__slots__, state, strict=True):
        object.__setattr__(self, name, value)


def _signature(twin: type[Any]) -> Any:
    from inspect import signature

    return signature(twin)


class _Late:
    """What only a real dataclass can tell: asked of one with the same fields, made when needed."""

    def __init__(self, given: Values, kw_only: bool, ask: Callable[[type[Any]], Any]) -> None:
        self.given = given
        self._kw_only = kw_only
        self._ask = ask
        self._told: Any = None

    def __get__(self, _instance: Any, owner: type[Any]) -> Any:
        if self._told is None:
            from dataclasses import field, make_dataclass

            given = {
                name: field(**one._asdict()) if isinstance(one, _Made) else one
                for name, one in self.given.items()
            }
            named = owner.__annotations__.items()
            fields = [(n, t, given[n]) if n in given else (n, t) for n, t in named]
            self._told = self._ask(make_dataclass(owner.__name__, fields, kw_only=self._kw_only))
        return self._told
