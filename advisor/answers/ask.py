"""Passes a question of any task to the module that answers that task."""

from __future__ import annotations

from datetime import date

from advisor.answers import networks
from advisor.answers.context import Answer, Context, Recommended, load_context
from advisor.catalog import Catalog, load_catalog
from advisor.questions.commands import AnyCompare, AnyMemory, AnyPredict, AnyRecommend
from advisor.questions.listings import Sources
from advisor.questions.network import Compare, MemoryQuestion, Predict, Recommend

# The data that an answer rests on: a loaded context, or the names of files to load.
Data = Context | Sources


def recommend(data: Data, question: AnyRecommend, *, today: date | None = None) -> Recommended:
    """The cheapest spec that meets the question as of `today`; where none does, the limits to relax."""
    if isinstance(question, Recommend):
        return networks.recommended(_context(data), question, today=today)
    from advisor.answers import language  # networks do not wait 40 ms for it

    return language.recommended(_catalog(data), question, today=today)


def predict(data: Data, question: AnyPredict) -> Answer:
    """The prediction for the instance, or the GPU, of the question."""
    if isinstance(question, Predict):
        return networks.predicted(_context(data), question)
    from advisor.answers import language  # networks do not wait 40 ms for it

    return language.predicted(_catalog(data), question)


def compare(data: Data, question: AnyCompare) -> Answer:
    """The instances, or GPUs, of the question compared with its baseline."""
    if isinstance(question, Compare):
        return networks.compared(_context(data), question)
    from advisor.answers import language  # networks do not wait 40 ms for it

    return language.compared(_catalog(data), question)


def memory(catalog: Catalog, question: AnyMemory) -> Answer:
    """The GPU memory that the question's network or language model takes."""
    if isinstance(question, MemoryQuestion):
        from advisor.answers.memory import memory_of_network  # starts processes that trace

        return memory_of_network(catalog, question)
    from advisor.answers import language  # networks do not wait 40 ms for it

    return language.memory(catalog, question)


def _context(data: Data) -> Context:
    return data if isinstance(data, Context) else load_context(data)


def _catalog(data: Data) -> Catalog:
    return data.catalog if isinstance(data, Context) else load_catalog(cny_per_usd=data.cny_per_usd)
