"""The Model Context Protocol: tools listed and called; over standard input and output."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from anyio import to_thread
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    ToolAnnotations,
)
from mcp_types import Tool as ListedTool

from advisor.agents.tools import TOOLS, Document, Tool
from advisor.answers.context import Context, load_context
from advisor.errors import AdvisorError, unknown_name
from advisor.messages import render

# A tool and its arguments -> its document.
Answering = Callable[[Tool, Mapping[str, Any]], Awaitable[Document]]
_LOG = logging.getLogger("advisor.agents")
_INSTRUCTIONS = (
    "Sizes cloud instances for neural networks. Ask `recommend` first; `networks` finds the name "
    "of a network. Every rate has an interval: decide by its lower bound, and tell `risk`, "
    "`extrapolation` and the date of the price along with the answer. Answers are cut to "
    "what matters; `left_out` counts what is missing, and `full: true` gets all of it. An error "
    "names the `field` that is wrong and a `hint`."
)
# Nothing here changes anything, and nothing but this machine is asked.
_READS = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)


def tool_server(version: str, answer: Answering, shown: Callable[[Document], Document] = dict) -> Server[Any]:
    """A server whose tools are answered by `answer`, documents and errors as `shown` has them.

    An `AdvisorError` becomes a result that is an error, with `field` and `hint`: the agent can mend
    its call."""

    async def listed(_context: object, _page: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(
            tools=[
                ListedTool(
                    name=tool.name,
                    title=tool.title,
                    description=tool.about,
                    input_schema=tool.schema(),
                    annotations=_READS,
                )
                for tool in TOOLS.values()
            ]
        )

    async def called(_context: object, call: CallToolRequestParams) -> CallToolResult:
        tool = TOOLS.get(call.name)
        if tool is None:
            raise MCPError(INVALID_PARAMS, str(unknown_name("tool", call.name, TOOLS)))
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
    """Answer whoever started this process, until it closes standard input."""
    loaded: list[Context] = []

    def answered(tool: Tool, arguments: Mapping[str, Any]) -> Document:
        if not loaded:  # with the first question: a client lists tools before that
            loaded.append(load_context())
        return tool.answer(loaded[0], arguments)

    async def answer(tool: Tool, arguments: Mapping[str, Any]) -> Document:
        return await to_thread.run_sync(answered, tool, arguments)

    server = tool_server(version, answer)
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


def error_document(error: AdvisorError) -> dict[str, Any]:
    """An error, with the field and the way out; fields have the names that tools use."""
    document = {
        "error": render(error.message, str, str),
        "field": error.field,
        "hint": render(error.hint, str, str) if error.hint else None,
        "suggestions": list(error.suggestions),
    }
    return {name: value for name, value in document.items() if value}


def _result(document: Document, *, is_error: bool = False) -> CallToolResult:
    """The result as data, and as JSON text for clients that read text alone."""
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    return CallToolResult(
        content=[TextContent(text=text)], structured_content=dict(document), is_error=is_error
    )
