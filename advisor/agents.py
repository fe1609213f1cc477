"""Tools for agents over the Model Context Protocol: each answers one kind of question, in short form."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

import mcp_types
from anyio import to_thread
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError

from advisor.answers import ask
from advisor.answers.context import Context, load_context
from advisor.answers.listing import listed_networks, networks_document, page_of, query_of
from advisor.errors import AdvisorError, UsageError, unknown_name
from advisor.messages import Message, render
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
# The default length of lists for agents; the whole list of networks has 1 MB.
_LISTED = 20
# The most items of each list that an agent gets; lists are sorted best first. Sources are left out
# because each price names its source.
_MOST = {
    "alternatives": 3,
    "rejected": 3,
    "pareto": 5,
    "front": 5,
    "serving.front": 2,
    "gpus": 20,
    "sources": 0,
    "catalog.sources": 0,
}
_DIGITS = 6
_EMPTY: tuple[object, ...] = (None, [], {}, "")
LEFT_OUT = "left_out"
_OF_EXPLANATIONS = (
    *("schema", "request", "instance_type", "gpu", "disk", "region", "price", "predicted"),
    *("bottleneck", "utilization", "stage_rates", "extrapolation", "explanation"),
)


def trimmed(document: Mapping[str, Any], most_results: int | None = None) -> dict[str, Any]:
    """The document with shorter lists (`most_results` alternatives, or 3 for None), floats of six digits, and
    no null or empty values below the top level. `left_out` maps a list's path to the number of items cut."""
    most = _MOST if most_results is None else _MOST | {"alternatives": most_results}
    left_out: dict[str, int] = {}
    read = {name: value for name, value in document.items() if name != "messages"}  # they repeat other fields
    short = {name: _short(value, name, most, left_out) for name, value in read.items()}
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
    """A tool: the `name` that agents call, the `kind` of its question, and the function that answers with the
    whole document. `usual` are agents' defaults; `hidden` are fields of the question that they cannot set."""

    name: str
    title: str
    about: str
    kind: Kinds[Any]
    document: Callable[[Context, Any], Document]
    usual: Mapping[str, Any] = {}
    hidden: tuple[str, ...] = ()
    is_slow: bool = False

    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the tool's arguments: the fields of the question, and `full`."""
        schema = merged_schema_of(self.kind, without=self.hidden)
        fields: dict[str, Any] = schema["properties"]
        for name, value in self.usual.items():
            fields[name]["default"] = value
        return schema | {"properties": fields | {FULL: _FULL}}

    def answer(self, context: Context, arguments: Mapping[str, Any]) -> Document:
        """The answer's document, trimmed unless `full` is true. Raises `UsageError` for a wrong argument."""
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


# A function that answers a tool's call: it takes the tool and its arguments, and returns the document.
Answering = Callable[[Tool, Mapping[str, Any]], Awaitable[Document]]
_LOG = logging.getLogger("advisor.agents")
_INSTRUCTIONS = (
    "Sizes cloud instances for neural networks. Ask `recommend` first; `networks` finds the name "
    "of a network. Every rate has an interval: decide by its lower bound, and tell `risk`, "
    "`extrapolation` and the date of the price along with the answer. Answers are cut to "
    "what matters; `left_out` counts what is missing, and `full: true` gets all of it. An error "
    "names the `field` that is wrong and a `hint`."
)
# All tools only read, and use nothing outside this machine.
_READS = mcp_types.ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)


def tool_server(version: str, answer: Answering, shown: Callable[[Document], Document] = dict) -> Server[Any]:
    """An MCP server whose tools call `answer`. `shown` transforms all documents before they are sent.

    An `AdvisorError` becomes an error result with `field` and `hint`, so that the agent can correct
    its call."""

    async def listed(_context: object, _page: object) -> mcp_types.ListToolsResult:
        return mcp_types.ListToolsResult(
            tools=[
                mcp_types.Tool(
                    name=tool.name,
                    title=tool.title,
                    description=tool.about,
                    input_schema=tool.schema(),
                    annotations=_READS,
                )
                for tool in TOOLS.values()
            ]
        )

    async def called(_context: object, call: mcp_types.CallToolRequestParams) -> mcp_types.CallToolResult:
        tool = TOOLS.get(call.name)
        if tool is None:
            raise MCPError(mcp_types.INVALID_PARAMS, str(unknown_name("tool", call.name, TOOLS)))
        try:
            return _result(shown(await answer(tool, call.arguments or {})))
        except AdvisorError as error:
            return _result(shown(error_document(error)), is_error=True)
        except Exception as error:
            _LOG.error("defect", extra={"tool": tool.name}, exc_info=error)
            return _result({"error": "the advisor failed; its log says why"}, is_error=True)

    return Server(
        "instance-sizing-advisor",
        version=version,
        title="Instance sizing advisor",
        instructions=_INSTRUCTIONS,
        on_list_tools=listed,
        on_call_tool=called,
        get_tool_input_schema=lambda name: TOOLS[name].schema() if name in TOOLS else None,
    )


async def serve_stdio(version: str) -> None:
    """Serve the tools over standard input and output until the client closes standard input."""
    loaded: list[Context] = []

    def answered(tool: Tool, arguments: Mapping[str, Any]) -> Document:
        if not loaded:  # loaded with the first call, so that listing tools is quick
            loaded.append(load_context())
        return tool.answer(loaded[0], arguments)

    async def answer(tool: Tool, arguments: Mapping[str, Any]) -> Document:
        return await to_thread.run_sync(answered, tool, arguments)

    server = tool_server(version, answer)
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


def error_document(error: AdvisorError) -> dict[str, Any]:
    """The document of an error: its message, field, hint and suggestions, as far as it has them."""
    document = {
        "error": render(error.message, str, str),
        "field": error.field,
        "hint": render(error.hint, str, str) if error.hint else None,
        "suggestions": list(error.suggestions),
    }
    return {name: value for name, value in document.items() if value}


def _result(document: Document, *, is_error: bool = False) -> mcp_types.CallToolResult:
    """The tool result with the document as data, and as JSON text for clients that read only text."""
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    return mcp_types.CallToolResult(
        content=[mcp_types.TextContent(text=text)], structured_content=dict(document), is_error=is_error
    )
