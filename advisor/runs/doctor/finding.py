"""What a check finds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class State(StrEnum):
    """`warning`: some things cannot be done, or not as well; `problem`: what is asked of this
    machine most will fail."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line: what is so, and what to do where it is not well; `facts` for programs."""

    check: str
    state: State
    found: str
    advice: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)


Check = Callable[[], Finding]
