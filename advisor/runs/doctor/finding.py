"""The finding of a check."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct, field


class State(StrEnum):
    """`warning`: some things cannot be done, or not as well; `problem`: what is asked of this
    machine most will fail."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


class Finding(Struct, frozen=True):
    """One line: what is so, and what to do where it is not well; `facts` for programs. `check` names what was
    looked at."""

    state: State
    found: str
    advice: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    check: str = ""


Check = Callable[[], Finding]
