"""Helpers for records, which are `msgspec.Struct`s: quick to define, compared and hashed by their fields."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


def asdict(record: Struct) -> dict[str, Any]:
    """The record as a dictionary of its fields; nested records become dictionaries too."""
    return {name: _plain(getattr(record, name)) for name in record.__struct_fields__}


def _plain(value: Any) -> Any:
    if isinstance(value, Struct):
        return asdict(value)
    if isinstance(value, dict):
        return {key: _plain(held) for key, held in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(_plain, value))
    return type(value)(map(_plain, value)) if isinstance(value, list | tuple) else value
