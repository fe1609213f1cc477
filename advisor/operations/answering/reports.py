"""A recommendation as a file: one table of the formats there are."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from advisor.errors import NoOfferError, unknown_name
from advisor.operations.answering.recommending import Recommended
from advisor.recommend import no_offer
from advisor.report.document import document_yaml
from advisor.report.exporting import export
from advisor.report.tables import recommendation_csv, recommendation_markdown

_YAML, _PLAIN = "application/yaml", "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Format:
    """What a file of it is called and is; `about` is for people."""

    extension: str
    media_type: str
    about: str
    write: Callable[[Recommended], str]


def _json(found: Recommended) -> str:
    return json.dumps(found.document(), indent=2, allow_nan=False) + "\n"


def _exported(tool: str) -> Callable[[Recommended], str]:
    def write(found: Recommended) -> str:
        if found.answer.chosen is None:
            raise NoOfferError(no_offer(found.answer))
        return export(found.answer.chosen, tool)

    return write


FORMATS: Mapping[str, Format] = {
    "json": Format("json", "application/json", "the whole document", _json),
    "yaml": Format(
        "yaml", _YAML, "the same as YAML", lambda found: document_yaml(found.document())
    ),
    "csv": Format(
        "csv", "text/csv; charset=utf-8", "a row a spec, for spreadsheets",
        lambda found: recommendation_csv(found.document()),
    ),
    "md": Format(
        "md", "text/markdown; charset=utf-8", "a table for people",
        lambda found: recommendation_markdown(found.document()),
    ),
    "terraform": Format("tf", _PLAIN, "what starts it with Terraform", _exported("terraform")),
    "skypilot": Format("yaml", _YAML, "what starts it with SkyPilot", _exported("skypilot")),
    "dstack": Format("yml", _YAML, "what starts it with dstack", _exported("dstack")),
    "ray": Format("yaml", _YAML, "what starts it as a Ray cluster", _exported("ray")),
    "awscli": Format("sh", _PLAIN, "what starts it with the AWS CLI", _exported("awscli")),
}  # fmt: skip


def format_named(name: str) -> Format:
    """The format of that name; `UsageError` with the nearest for another."""
    if name not in FORMATS:
        raise unknown_name("report format", name, FORMATS)
    return FORMATS[name]
