"""The tools: each is one question of the product, with its fields and its document, cut to what an agent
reads: what lists lose is counted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from advisor.answers import ask
from advisor.answers.context import Context
from advisor.answers.listing import listed_networks, networks_document, page_of, query_of
from advisor.errors import UsageError
from advisor.messages import Message
from advisor.questions import commands
from advisor.questions.fields import Flag
from advisor.questions.listings import Networks, Offers
from advisor.questions.network import Predict
from advisor.questions.question import Kinds
from advisor.questions.reading import from_values, merged_schema_of

Document = Mapping[str, Any]
FULL = "full"
_FULL = {
    "type": "boolean",
    "default": False,
    "description": "The whole document, as `-o json` prints it: 10 to 60 kB.",
}
# What an agent reads at once: a whole list of networks has 1 MB.
_LISTED = 20
# How many of each list an agent sees. The document has them best first; where a price comes from
# stands beside the price.
_MOST = {
    "alternatives": 3,
    "rejected": 3,
    "pareto": 5,
    "front": 5,
    "serving.front": 5,
    "gpus": 20,
    "sources": 0,
    "catalog.sources": 0,
}
_DIGITS = 6
_EMPTY: tuple[object, ...] = (None, [], {}, "")
LEFT_OUT = "left_out"
_OF_EXPLANATIONS = (
    "schema",
    "request",
    "instance_type",
    "gpu",
    "disk",
    "region",
    "price",
    "predicted",
    "bottleneck",
    "utilization",
    "stage_rates",
    "extrapolation",
    "explanation",
)


def trimmed(document: Mapping[str, Any], most_results: int | None = None) -> dict[str, Any]:
    """The document with at most `most_results` alternatives (3 where nobody said), floats to six digits, and
    below the first level without what is null or empty. `left_out` counts what lists lost, by their path."""
    most = _MOST if most_results is None else _MOST | {"alternatives": most_results}
    left_out: dict[str, int] = {}
    short = {name: _short(value, name, most, left_out) for name, value in document.items()}
    return short | {LEFT_OUT: left_out} if left_out else short


def _short(value: Any, path: str, most: Mapping[str, int], left_out: dict[str, int]) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    if isinstance(value, Mapping):
        filled = {name: inner for name, inner in value.items() if inner not in _EMPTY}
        return {name: _short(inner, f"{path}.{name}", most, left_out) for name, inner in filled.items()}
    if isinstance(value, (list, tuple)):
        kept = value[: most.get(path, len(value))]
        if len(kept) < len(value):
            left_out[path] = len(value) - len(kept)
        return [_short(inner, f"{path}[]", most, left_out) for inner in kept]
    return value


class Tool(NamedTuple):
    """A question under the `name` that agents call, and its whole document. `usual` are defaults
    for agents; `hidden` are fields that make no sense for them."""

    name: str
    title: str
    about: str
    kind: Kinds[Any]
    document: Callable[[Context, Any], Document]
    usual: Mapping[str, Any] = {}
    hidden: tuple[str, ...] = ()
    is_slow: bool = False

    def schema(self) -> dict[str, Any]:
        """JSON Schema of its arguments: the question's fields, and `full`."""
        schema = merged_schema_of(self.kind, without=self.hidden)
        fields: dict[str, Any] = schema["properties"]
        for name, value in self.usual.items():
            fields[name]["default"] = value
        return schema | {"properties": fields | {FULL: _FULL}}

    def answer(self, context: Context, arguments: Mapping[str, Any]) -> Document:
        """The document, trimmed unless `full` is true. `UsageError` names the field."""
        values = {**self.usual, **arguments}
        full = values.pop(FULL, None)
        for name in self.hidden:
            if name in values:
                hint = Message("there are: {names}", names=tuple(self.schema()["properties"]))
                raise UsageError(
                    "there is no field '{name}'", name=name, field=name, code="unknown_field", hint=hint
                )
        document = self.document(context, from_values(self.kind, values))
        if full is not None and Flag().from_json(full, FULL):
            return document
        return trimmed(document, arguments.get("max_results"))


def _explanation(context: Context, question: Predict) -> Document:
    whole = ask.predict(context, question.replace(explain=True)).document()
    return {name: whole[name] for name in _OF_EXPLANATIONS}


def _networks(context: Context, question: Networks) -> Document:
    networks = listed_networks(context.model, question.search)
    return networks_document(context.model, networks[: question.limit]) | {"total": len(networks)}


def _offers(context: Context, question: Offers) -> Document:
    page = page_of(context.catalog, query_of(question), 0, question.limit)
    return page.document(context.catalog) | {"total": page.total}


_EVERY = (
    Tool(
        "recommend",
        "Recommend an instance",
        "The cheapest cloud instance and disk that will really reach a throughput (or a latency, "
        "a budget, a deadline) for a neural network in training, inference, preprocessing, in "
        "serving a language model (task generation) or tuning one (task finetuning). Answers with "
        "price, interval of the rate (lower, median, upper), bottleneck, alternatives, and the "
        "reasons for rejecting the others. `recommendation` is null where nothing meets the "
        "question: then `nearest` and `relax` say what would.",
        commands.RECOMMEND,
        lambda context, question: ask.recommend(context, question).document(),
        is_slow=True,
    ),
    Tool(
        "predict",
        "Predict the throughput of an instance",
        "What one named instance type reaches for a network: rate with interval, bottleneck, "
        "price per million samples. `vcpus` and `memory` ask what if it had others.",
        commands.PREDICT,
        lambda context, question: ask.predict(context, question).document(),
    ),
    Tool(
        "compare",
        "Compare instances or GPUs",
        "Two or more instance types, or GPUs by themselves, side by side for one network: rate, "
        "price and price per sample against a baseline.",
        commands.COMPARE,
        lambda context, question: ask.compare(context, question).document(),
        is_slow=True,
    ),
    Tool(
        "memory",
        "GPU memory of a network",
        "GPU memory that a network needs at a batch size: its parts, the GPUs that it fits, the "
        "largest batch of each.",
        commands.MEMORY,
        lambda context, question: ask.memory(context.catalog, question).document(),
        is_slow=True,
    ),
    Tool(
        "networks",
        "Find networks",
        "The networks that the advisor knows by name, with parameters, operations, input, and "
        "whether rates were measured. Give `search` ('resnet', 'vit_*'); `total` counts all that "
        "match.",
        Networks,
        _networks,
        {"limit": _LISTED},
        ("cursor",),
    ),
    Tool(
        "offers",
        "Find priced offers",
        "Instance types with prices, cheapest first, by cloud, region, market, GPU, vCPUs, RAM "
        "and price. `total` counts all that match; narrow the filters to see others.",
        Offers,
        _offers,
        {"limit": _LISTED},
        ("cursor",),
    ),
    Tool(
        "explain",
        "Explain a prediction",
        "Why a named instance reaches its rate and no more: what binds, what more vCPUs, RAM, disk "
        "or GPU would add, and how far the prediction is from anything measured.",
        Predict,
        _explanation,
        {},
        ("explain", "curve"),
        is_slow=True,
    ),
)
TOOLS: Mapping[str, Tool] = {tool.name: tool for tool in _EVERY}
