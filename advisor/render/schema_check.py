"""Whether a JSON value is what one of our schemas says: what people saved is not believed."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any


def first_fault(value: Any, schema_id: str) -> str | None:
    """The first fault, with its position ('$.workloads[2].name: ..'); None where there is none."""
    error = next(_validator(schema_id).iter_errors(value), None)
    while error is not None and hasattr(error.kind, "context"):
        error = max(
            (branch[0] for branch in error.kind.context if branch), key=lambda error: len(error.instance_path)
        )
    if error is None:
        return None
    steps = (f"[{step}]" if isinstance(step, int) else f".{step[:60]}" for step in error.instance_path)
    return f"${''.join(steps)}: {error.message}"


@cache
def _validator(schema_id: str) -> Any:
    from jsonschema_rs import Draft202012Validator  # only saved documents are checked

    name = schema_id.removeprefix("advisor.").partition("/")[0]
    text = (files("advisor.render") / "schemas" / f"{name}.schema.json").read_text(encoding="utf-8")
    return Draft202012Validator(json.loads(text), validate_formats=True, mask="this")
