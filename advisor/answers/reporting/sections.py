"""One workload of a report: its answer with all that is told of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, NamedTuple

from advisor.answers.answer import Recommended
from advisor.answers.context import Context
from advisor.answers.networks import explained_answer
from advisor.answers.reporting.costs import Bought, costs, price_throughput, regions
from advisor.answers.reporting.curving import curves, curves_block, gpu_memory_block, sensitivity
from advisor.answers.reporting.evidence import Measured, ages, evidence, nearest_slice
from advisor.answers.reporting.subject import Subject
from advisor.catalog import Catalog
from advisor.domain import Recommendation
from advisor.engine.prepared import Prepared
from advisor.render.sizing.facts import Drawn, answer_facts, bottleneck_facts, break_evens, drawn_rows

_VARIED = {"vcpus": "vcpus", "memory": "memory_mib", "disk": "disk_read_mib_per_second"}


class Named(NamedTuple):
    """What a workload is called in a report, and the command that asks it alone."""

    name: str
    command: str


class Answered(NamedTuple):
    """An answer with its document, the context it was found in and what was prepared for it."""

    answer: Recommendation
    document: Mapping[str, Any]
    context: Context
    prepared: Prepared


def _explanation(answered: Answered) -> dict[str, Any] | None:
    explained = explained_answer(answered.answer, answered.context)
    return explained.document() if explained else None


def section(named: Named, answered: Answered, measured: Measured, as_of: date) -> dict[str, Any]:
    """The section of a workload that was asked here; of the nearest spec where nothing fits."""
    candidate = answered.answer.chosen or answered.answer.nearest
    if candidate is None:
        return bare_section(named, answered.document)
    subject = Subject(answered.context, answered.answer.request, candidate)
    bought = Bought(candidate.spec, candidate.prediction.median, subject.context.catalog)
    known = measured.rows(subject.request.network, subject.request.task)
    rows, lines = price_throughput(answered.answer, answered.prepared), curves(subject)
    explanation = answered.document["explanation"] or _explanation(answered)
    places = regions(bought)
    return {
        **_head(named, answered.document),
        "complete": True,
        "costs": costs(bought),
        "price_throughput": rows,
        "break_even": break_evens(rows),
        "bottleneck": bottleneck_facts(answered.document),
        "curves": _with_measured(curves_block(lines), known, subject),
        "measured": known,
        "sensitivity": sensitivity(subject, explanation, lines),
        "gpu_memory": gpu_memory_block(subject, lines),
        "regions": places,
        "evidence": evidence(subject, explanation),
        "data_ages": ages(candidate.spec, known, places, as_of),
    }


def language_section(named: Named, found: Recommended, catalog: Catalog, as_of: date) -> dict[str, Any]:
    """The section of a language model that was asked here. It has no stages, and so no curves."""
    document = found.message_document()
    bare, spec = bare_section(named, document), document["recommendation"] or document["nearest"]
    candidate = found.result.chosen or found.result.nearest
    if candidate is None:
        return bare
    bought = Bought(candidate.spec, spec["predicted"]["throughput"]["median"], catalog)
    places = regions(bought)
    return bare | {
        "complete": True,
        "costs": costs(bought),
        "regions": places,
        "data_ages": ages(candidate.spec, (), places, as_of),
    }


def bare_section(named: Named, document: Mapping[str, Any]) -> dict[str, Any]:
    """What a recommendation's document tells by itself: of one that was saved and is answered
    differently now, or of a question to which not even a nearest spec is known."""
    ranked = [spec for spec in (document["recommendation"], document["nearest"]) if spec]
    specs = [
        Drawn(spec, answers=document["recommendation"] is not None, chosen=at == 0)
        for at, spec in enumerate([*ranked, *document["alternatives"]])
    ]
    rows = drawn_rows(specs)
    return {
        **_head(named, document),
        "complete": False,
        "costs": None,
        "price_throughput": rows,
        "break_even": break_evens(rows),
        "bottleneck": bottleneck_facts(document),
        "curves": None,
        "measured": [],
        "sensitivity": [],
        "gpu_memory": None,
        "regions": [],
        "evidence": [],
        "data_ages": [],
    }


def _head(named: Named, document: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": named.name,
        "command": named.command,
        "answer": answer_facts(document),
        "recommendation": document,
    }


def _with_measured(
    block: dict[str, Any], known: Sequence[Mapping[str, Any]], subject: Subject
) -> dict[str, Any]:
    """Each curve with the ids of the measurements that differ in nothing else."""
    instance = subject.instance
    spec = {
        "vcpus": instance.vcpus,
        "memory_mib": instance.memory_mib,
        "disk_read_mib_per_second": subject.candidate.spec.disk.rate.read_mib_per_second,
    }
    for name, varied in _VARIED.items():
        block[name]["measured"] = nearest_slice(known, varied, spec)
    return block
