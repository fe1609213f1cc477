"""What a question is asked in: words as `advisor.questions` read them, by the command
line's names with underscores (`model` is `network`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Words = Mapping[str, Any]
