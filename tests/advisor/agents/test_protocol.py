"""An agent's client asks a real process over standard input and output, and a real service."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from contextlib import closing

import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from advisor.store.keys import ApiKeys, Scope
from benchmarks.served import Served

LLAMA = "meta-llama/Llama-3.1-8B"
TEN_QUESTIONS = [
    ("recommend", {"task": "inference", "model": "googlenet", "target_throughput": 500}),
    ("recommend", {"task": "training", "model": "resnet50", "epochs": 90, "max_hours": 72}),
    ("recommend", {"task": "generation", "model": LLAMA, "users": 40, "max_tpot_ms": 50}),
    ("recommend", {"task": "inference", "model": "googlenet", "target_throughput": 1e9}),
    ("predict", {"task": "inference", "model": "resnet50", "instance": "g5.xlarge", "vcpus": 8}),
    ("compare", {"task": "training", "model": "resnet50", "gpu": "T4,L4"}),
    ("memory", {"model": "resnet50", "batch_size": 64, "gpu": "T4"}),
    ("networks", {"search": "vit_*"}),
    ("offers", {"gpu": "T4", "cloud": "aws", "vcpus": "4..16"}),
    ("explain", {"task": "training", "model": "resnet50", "instance": "g5.xlarge"}),
]
MISTYPED = {"task": "inference", "model": "googlenet", "target_troughput": 500}


def advisor_mcp():
    # The client passes few variables on; the rest of the test's own surroundings are needed here.
    return StdioServerParameters(
        command=sys.executable, args=["-m", "advisor.cli.main", "mcp"], env=dict(os.environ)
    )


async def tried(client):
    """List the tools, ask ten questions, and ask one wrongly."""
    listed = {tool.name: tool for tool in (await client.list_tools()).tools}
    for name, arguments in TEN_QUESTIONS:
        result = await client.call_tool(name, arguments)
        assert not result.is_error, result.content
        assert result.structured_content["schema"].startswith("advisor.")
        assert listed[name].annotations.read_only_hint
    assert result.structured_content["explanation"], "the last one explains"
    refused = await client.call_tool("recommend", MISTYPED)
    assert refused.is_error
    assert refused.structured_content["field"] == "target_troughput"
    assert refused.structured_content["hint"] == "did you mean target_throughput?"
    with pytest.raises(MCPError, match="did you mean recommend"):
        await client.call_tool("recomend", {})
    return set(listed)


TOOLS = {"recommend", "predict", "compare", "memory", "networks", "offers", "explain"}


def test_an_agent_lists_the_tools_and_asks_ten_questions_over_standard_input():
    async def question():
        async with Client(stdio_client(advisor_mcp())) as client:
            return await tried(client)

    assert asyncio.run(question()) == TOOLS


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_an_agent_asks_the_service_with_a_key(mode, tmp_path):
    async def question(url, key):
        headers = {"Authorization": f"Bearer {key}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=60) as http,
            Client(streamable_http_client(url, http_client=http), mode=mode) as client,
        ):
            return await tried(client)

    database = f"sqlite:///{tmp_path}/store.sqlite"
    with closing(ApiKeys(database)) as book:
        key, _ = book.add("agent", Scope.READ, lifetime_seconds=None, now=time.time())
    with Served("--mcp", "--workers", "2", database_url=database) as service:
        url = f"http://127.0.0.1:{service.port}/mcp"
        assert httpx2.post(url, json={}).status_code == 401
        assert asyncio.run(question(url, key)) == TOOLS
        metrics = httpx2.get(f"http://127.0.0.1:{service.port}/metrics").text
        assert 'advisor_tool_calls_total{tool="recommend"} 5.0' in metrics


@pytest.mark.slow
@pytest.mark.parametrize(("ended_by", "code"), [(None, 0), (signal.SIGTERM, 143)])
def test_it_ends_with_its_input_or_by_a_signal(ended_by, code):
    with subprocess.Popen(
        [sys.executable, "-m", "advisor.cli.main", "mcp"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        process.stdin.write('{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
        process.stdin.flush()
        assert process.stdout.readline()
        if ended_by:
            process.send_signal(ended_by)
            assert process.wait(20) == code
        else:
            process.stdin.close()
            assert process.wait(20) == code
