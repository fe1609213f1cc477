"""The command and the digests with which a reader gets the same report again."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from advisor.answers.context import Context
from advisor.answers.reporting.evidence import bundled_measurements_sha256
from advisor.files import own_model_path
from advisor.models.bundled import FOLDER, MODEL
from advisor.questions.listings import Sources
from advisor.render.document import is_language

_PACKAGE = "instance-sizing-advisor"


class Input(NamedTuple):
    """A file that was read: as it was named, and what was in it."""

    name: str
    content: bytes

    def document(self) -> dict[str, str]:
        """Its digest stands for it."""
        return {"name": self.name, "sha256": hashlib.sha256(self.content).hexdigest()}


class Origin(NamedTuple):
    """The origin of a report: the command without its output, the files it read, and the data behind its
    answers."""

    command: str
    inputs: Sequence[Input] = ()
    sources: Sources = Sources()


def reproducibility(
    context: Context, origin: Origin, sections: Iterable[Mapping[str, Any]]
) -> dict[str, Any]:
    """The document's `reproducibility`."""
    sections = list(sections)
    model = context.sources().performance_model()
    drawn = {row["trial_id"] for section in sections for row in section["measured"]}
    return {
        "command": origin.command,
        "inputs": [input.document() for input in origin.inputs],
        "versions": {
            "advisor": advisor_version(),
            "python": platform.python_version(),
            "numpy": version("numpy"),
        },
        "catalog": {
            "as_of": context.catalog.as_of.isoformat(),
            "sha256": context.catalog.fingerprint,
            "sources": list(context.catalog.sources),
        },
        "performance_model": {**model, "sha256": _model_digest(origin.sources.performance_model)},
        "language_predictors": _language_predictors(sections),
        "measurements": {
            "bundled_sha256": bundled_measurements_sha256(),
            "rows": len(drawn),
            "trial_ids": sorted(drawn),
        },
    }


def _language_predictors(sections: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    answers = [section["recommendation"] for section in sections]
    used = [answer["performance_model"] for answer in answers if is_language(answer)]
    return [model for index, model in enumerate(used) if model not in used[:index]]


def advisor_version() -> str:
    """The version of the installed package; 'unknown' in a folder that was never installed."""
    try:
        return version(_PACKAGE)
    except PackageNotFoundError:
        return "unknown"


def _model_digest(file: Path | None) -> str:
    own = own_model_path()
    path = file or (own if own.is_file() else FOLDER / MODEL)
    return hashlib.sha256(path.read_bytes()).hexdigest()
