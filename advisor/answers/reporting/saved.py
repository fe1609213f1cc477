"""`--from`: reads saved answers and reports, checked against their schemas before they are shown."""

from __future__ import annotations

import hashlib
import json
import math
import re
import sys
from collections.abc import Mapping
from datetime import date
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple, NoReturn

from advisor.answers.context import Context
from advisor.domain import Recommendation
from advisor.engine import Preparations, recommend
from advisor.errors import AdvisorError, UsageError, one_line
from advisor.messages import Message
from advisor.questions.reading import question_from
from advisor.render.document import SCHEMA as RECOMMENDATION
from advisor.render.facts import SCHEMA as REPORT
from advisor.render.records import candidate_block


class Input(NamedTuple):
    """The name and the content of a file that was read."""

    name: str
    content: bytes

    def document(self) -> dict[str, str]:
        """The file's name and digest, for a report's document."""
        return {"name": self.name, "sha256": hashlib.sha256(self.content).hexdigest()}


def first_fault(value: Any, schema_id: str) -> str | None:
    """The first violation of the schema, with its position ('$.workloads[2].name: ..'), or None."""
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


_SAME = 1e-9
_STEERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]").search


def read_saved(file: Input) -> dict[str, Any]:
    """The document in a file: `advisor.recommendation/1` or `advisor.report/1`. Raises `UsageError` for
    another document, and for one that violates its schema."""
    try:
        document = json.loads(file.content, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            "{file} is not valid JSON ({error})",
            file=file.name,
            error=str(error),
            hint="only JSON can be read back: `advisor recommend ... -o json > answer.json`, or "
            "`advisor report ... --out report.json`",
        ) from None
    kind = document.get("schema") if isinstance(document, dict) else None
    if kind not in (RECOMMENDATION, REPORT):
        raise UsageError(
            "{file} is neither an answer ({answer}) nor a report ({report}): {schema}",
            file=file.name,
            answer=RECOMMENDATION,
            report=REPORT,
            schema=Message("it says '{schema}'", schema=one_line(kind))
            if isinstance(kind, str)
            else Message("it names no schema"),
        )
    fault = first_fault(document, kind) or _unusable_value_fault(document)
    if fault:
        raise UsageError("{file} is damaged, or of another version: {fault}", file=file.name, fault=fault)
    return dict(document)


def _unusable_value_fault(value: Any) -> str | None:
    """The first text with control characters or lone surrogates, or number that is not finite, or None."""
    if isinstance(value, str):
        return f"it has characters that cannot be shown: {value[:60]!a}" if _STEERS(value) else None
    if isinstance(value, (int, float)) and not abs(value) <= sys.float_info.max:
        return "it has a number that is too large"
    if isinstance(value, dict):
        return _unusable_value_fault([*value, *value.values()])
    inside = map(_unusable_value_fault, value) if isinstance(value, list) else iter(())
    return next(filter(None, inside), None)


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number of JSON")


def same_answer_today(
    document: Mapping[str, Any], context: Context, preparations: Preparations
) -> Recommendation | None:
    """The answer to a saved question from today's catalogue and model; None where spec, price or rate differ,
    or where they cannot answer it (a folder of images, a user's network)."""
    if document["performance_model"]["id"] != context.model.id or document["live"]:
        return None
    try:
        # Questions of older versions may lack fields: such a report shows only the saved answer.
        question = question_from(document["request"])
        answer = recommend(question, preparations, today=date.fromisoformat(document["as_of"]))
    except (AdvisorError, LookupError, TypeError, ValueError, OverflowError):
        return None
    spec, saved = answer.chosen or answer.nearest, document["recommendation"] or document["nearest"]
    if spec is None or saved is None or (answer.chosen is None) != (not document["recommendation"]):
        return None
    return answer if _is_same_spec(candidate_block(spec), saved) else None


def _is_same_spec(record: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    names = ("cloud", "region", "market", "count", "instance_type", "batch_size", "bottleneck")
    numbers = [
        (record["price"]["total_usd_per_hour"], other["price"]["total_usd_per_hour"]),
        *(
            (record["predicted"]["throughput"][name], other["predicted"]["throughput"][name])
            for name in ("lower", "median", "upper")
        ),
    ]
    return (
        all(record[name] == other[name] for name in names)
        and record["disk"]["order"] == other["disk"]["order"]
        and all(math.isclose(a, b, rel_tol=_SAME) for a, b in numbers)
    )
