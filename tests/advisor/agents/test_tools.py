"""Agents' tools: the questions' fields and documents, cut to what is read, over pipes and a real service."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import closing

import httpx2
import jsonschema
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from advisor.agents import TOOLS, error_document, trimmed
from advisor.answers.context import load_context
from advisor.errors import UsageError
from advisor.questions.question import kinds_of
from advisor.questions.reading import schema_of
from advisor.store.keys import ApiKeys, Scope
from benchmarks.served import Served
from tests.rows import table

ASKED = {"task": "inference", "model": "googlenet", "target_throughput": 500}
# Answers that an agent reads at once; whole ones have up to 60 kB.
MOST_BYTES = 24_000


@pytest.fixture(scope="session")
def context():
    return load_context()


@pytest.mark.parametrize("tool", TOOLS.values(), ids=list(TOOLS))
def test_its_schema_is_an_object_with_the_fields_of_its_questions(tool):
    schema = tool.schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["type"] == "object"
    assert not {"oneOf", "anyOf", "allOf"} & set(schema), "many clients refuse those at the top"
    fields = {name for kind in kinds_of(tool.kind) for name in schema_of(kind)["properties"]}
    assert set(schema["properties"]) == (fields - set(tool.hidden)) | {"full"}
    assert all(field["description"] for field in schema["properties"].values())


def test_a_field_that_some_tasks_have_names_them_and_numbers_keep_six_digits():
    users = TOOLS["recommend"].schema()["properties"]["users"]["description"]
    assert users.endswith("Tasks: generation.")
    whole = {"rate": 967.2001647, "run": None, "price": {"usd": 0.752, "terms": "", "low": 0.0}}
    assert trimmed(whole) == {"rate": 967.2, "run": None, "price": {"usd": 0.752, "low": 0.0}}


@pytest.mark.parametrize(
    ("name", "question"),
    [
        ("recommend", ASKED),
        ("recommend", {"task": "generation", "model": "meta-llama/Llama-3.1-8B", "users": 40}),
        ("predict", {"task": "training", "model": "resnet50", "instance": "g5.xlarge"}),
        ("memory", {"task": "generation", "model": "meta-llama/Llama-3.1-8B"}),
        ("networks", {}),
        ("offers", {}),
        ("explain", {"task": "training", "model": "resnet50", "instance": "g5.xlarge"}),
    ],
)
def test_an_answer_is_short_and_counts_what_it_lost(context, name, question):
    short = TOOLS[name].answer(context, question)
    assert len(json.dumps(short)) < MOST_BYTES
    whole = TOOLS[name].answer(context, question | {"full": True})
    assert set(whole) - {"messages"} == set(short) - {"left_out"}
    for path, lost in short.get("left_out", {}).items():
        lists = [whole, short]
        for part in path.split("."):
            lists = [element.get(part, []) for element in lists]
        assert len(lists[0]) - len(lists[1]) == lost


def test_a_list_says_how_many_there_are_and_refuses_a_hidden_field(context):
    result = TOOLS["networks"].answer(context, {"search": "resnet"})
    assert len(result["networks"]) == 20 < result["total"]
    with pytest.raises(UsageError, match="there are: search, limit, full"):
        TOOLS["networks"].answer(context, {"cursor": "x"})


@pytest.mark.parametrize(("tool", "question", "field", "hint"), table("agents")["refused"])
def test_what_is_wrong_names_its_field_and_a_way_that_an_agent_has(context, tool, question, field, hint):
    with pytest.raises(UsageError) as error:
        TOOLS[tool].answer(context, question)
    document = error_document(error.value)
    assert document["field"] == field
    assert hint in document["hint"]


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


NAMES = {"recommend", "predict", "compare", "memory", "networks", "offers", "explain"}


def test_an_agent_lists_the_tools_and_asks_ten_questions_over_standard_input():
    async def question():
        async with Client(stdio_client(advisor_mcp())) as client:
            return await tried(client)

    assert asyncio.run(question()) == NAMES


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
        assert asyncio.run(question(url, key)) == NAMES
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
