"""A report's document to render, a golden file gathered for real, and names that do something."""

import copy
import json
from itertools import cycle
from pathlib import Path

from jsonschema import Draft202012Validator, FormatChecker

from advisor.answers.reporting.sections import bare_section
from advisor.render.document import plain
from advisor.render.facts import totals
from advisor.render.language_document import finetuning_document, generation_document
from tests.advisor.render.language_answers import (
    SOURCES,
    finetuning_recommendation,
    generation_recommendation,
    nothing_found,
)
from tests.advisor.render.schemas import schema_of

GOLDEN = Path(__file__).parents[3] / "golden" / "report"


def golden_report():
    """Five workloads of a team: one per task, one that nothing meets, one without a target."""
    return json.loads((GOLDEN / "team.json").read_text())


def mixed_report():
    """A network, and language models that are served, tuned and too much, as saved answers tell them."""
    documents = {
        "Chat": generation_document(generation_recommendation(), SOURCES),
        "Tuning": finetuning_document(finetuning_recommendation(), SOURCES),
        "Too much": generation_document(nothing_found(), SOURCES),
    }
    command = "advisor recommend --task generation --model meta-llama/Llama-3.1-8B --users 40"
    sections = [bare_section(plain(document), name, command) for name, document in documents.items()]
    report = golden_report()
    workloads = [report["workloads"][0], *sections]
    predictor = SOURCES.performance_model()
    stands_on = {**report["reproducibility"], "language_predictors": [predictor]}
    return {**report, "workloads": workloads, "totals": totals(workloads), "reproducibility": stands_on}


def leaves(value):
    """Every value of a document, whatever it is called; nothing at all is none."""
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from leaves(item)
    elif value is not None:
        yield value


def validator():
    """Of `advisor.report/1`, with the recommendation inside."""
    return Draft202012Validator(schema_of("report"), format_checker=FormatChecker())


HOSTILE = (
    "<script>alert(1)</script>",
    '=HYPERLINK("http://example.org","click")',
    "@SUM(1+9)*cmd|' /C calc'!A0",
    "+1|2 and `code` with $x^2$ and **stars**",
    "-- </details> <!-- [link](javascript:alert(1)) &copy; #12 @team",
    "图像分类 — обучение — 推理",
    "👩‍💻🚀 ünïcødé",
    "x" * 300,
    "a, \"b\"; 'c'\\d",
    "NA",
    '"><img src=x onerror=alert(1)>',
    "{{ 7*7 }} {% raw %}",
    "a&amp;b </style><b>",
)


def renamed(document, names=HOSTILE):
    """The document with these names, in turn, for its title, workloads and networks."""
    changed = copy.deepcopy(document) | {"title": names[0]}
    for section, name in zip(changed["workloads"], cycle(names), strict=False):
        section["name"] = section["answer"]["model"] = name
        section["recommendation"]["request"]["model"] = name
    return changed


def with_name(document, name):
    """One workload alone, called so; so is its network."""
    first = document["workloads"][0]
    answer = {**first["answer"], "model": name}
    command = f"advisor recommend --model {name}"
    section = {**first, "name": name, "answer": answer, "command": command}
    return {**document, "title": name, "workloads": [section]}
