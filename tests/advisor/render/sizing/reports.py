"""A report's document to render: gathered once, for real, and kept as a golden file."""

import json
from pathlib import Path

from advisor.answers.reporting.sections import bare_section
from advisor.render.document import plain_document
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
    """A network, a language model that is served, one that is tuned, and one that nothing serves;
    of the language models as saved answers tell them."""
    documents = {
        "Chat": generation_document(generation_recommendation(), SOURCES),
        "Tuning": finetuning_document(finetuning_recommendation(), SOURCES),
        "Too much": generation_document(nothing_found(), SOURCES),
    }
    command = "advisor recommend --task generation --model meta-llama/Llama-3.1-8B --users 40"
    sections = [bare_section(plain_document(document), name, command) for name, document in documents.items()]
    report = golden_report()
    workloads = [report["workloads"][0], *sections]
    predictor = SOURCES.performance_model()
    stands_on = {**report["reproducibility"], "language_predictors": [predictor]}
    return {**report, "workloads": workloads, "totals": totals(workloads), "reproducibility": stands_on}


def leaves(value):
    """Every value of a document, whatever it is called; nothing at all is none."""
    if isinstance(value, dict):
        for item in value.values():
            yield from leaves(item)
    elif isinstance(value, list):
        for item in value:
            yield from leaves(item)
    elif value is not None:
        yield value


def validator():
    """Of `advisor.report/1`, with the recommendation inside."""
    import jsonschema

    return jsonschema.Draft202012Validator(schema_of("report"), format_checker=jsonschema.FormatChecker())
