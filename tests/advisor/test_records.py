"""Records as dictionaries."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from msgspec import Struct
from msgspec.structs import replace

from advisor.records import asdict


class Size(NamedTuple):
    """A pair that stays a pair."""

    width: int
    height: int


class Part(Struct, frozen=True):
    """A record inside another."""

    name: str
    size: Size


class Whole(Struct, frozen=True, kw_only=True):
    """A record of records, with a rule."""

    parts: tuple[Part, ...]
    by_name: dict[str, Part]

    def __post_init__(self) -> None:
        if not self.parts:
            raise ValueError("no parts")


def test_records_inside_a_record_become_dictionaries_too() -> None:
    """In tuples and dictionaries alike; named tuples stay what they are."""
    part = Part("lid", Size(1, 2))
    as_document = {"name": "lid", "size": Size(1, 2)}
    whole = asdict(Whole(parts=(part,), by_name={"lid": part}))
    assert whole == {"parts": (as_document,), "by_name": {"lid": as_document}}
    assert isinstance(whole["parts"][0]["size"], Size)


def test_a_changed_record_keeps_its_rule() -> None:
    """What a record refuses is refused of its changed copy."""
    with pytest.raises(ValueError, match="no parts"):
        replace(Whole(parts=(Part("lid", Size(1, 2)),), by_name={}), parts=())
