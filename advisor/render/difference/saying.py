"""Names and amounts, as sentences about changes have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from advisor.errors import one_line
from advisor.units import format_usd


def type_name(one: Mapping[str, Any]) -> str:
    """'2 x g4dn.xlarge'."""
    count = "" if one["count"] == 1 else f"{one['count']} x "
    return one_line(f"{count}{one['instance_type']}")


def spec_name(one: Mapping[str, Any]) -> str:
    """'g4dn.xlarge + gp3:158GiB'."""
    return one_line(f"{type_name(one)} + {one['disk']}")


def cost_words(one: Mapping[str, Any]) -> str:
    """'$0.543 -> $0.521 (-4.1 %)', or the one price where nothing changed."""
    old, new, percent = one["old"], one["new"], one["percent"]
    if not percent:
        return format_usd(new)
    return f"{format_usd(old)} -> {format_usd(new)} ({percent:+.1f} %)"


def joined(words: Sequence[str]) -> str:
    """'a, b and c'."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))
