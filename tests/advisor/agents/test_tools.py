"""The tools that agents have: the questions' fields, the same documents, cut to what is read."""

import json
import subprocess
import sys

import jsonschema
import pytest

from advisor.agents import TOOLS, error_document, trimmed
from advisor.answers.context import load_context
from advisor.cli.main import run
from advisor.errors import UsageError
from advisor.questions.question import kinds_of
from advisor.questions.reading import schema_of

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


def test_a_field_that_some_tasks_have_names_them():
    users = TOOLS["recommend"].schema()["properties"]["users"]["description"]
    assert users.endswith("Tasks: generation.")


def test_the_whole_answer_is_the_document_of_the_command_line(context, capsys):
    question = "recommend --task inference --model googlenet --target-throughput 500 -o json"
    assert run(question.split()) == 0
    printed = json.loads(capsys.readouterr().out)
    assert TOOLS["recommend"].answer(context, ASKED | {"full": True}) == printed


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
    assert set(whole) == set(short) - {"left_out"}
    for path, lost in short.get("left_out", {}).items():
        lists = [whole, short]
        for part in path.split("."):
            lists = [element.get(part, []) for element in lists]
        assert len(lists[0]) - len(lists[1]) == lost


def test_numbers_keep_six_digits_and_nothing_empty_stays_below_the_first_level():
    whole = {"rate": 967.2001647, "run": None, "price": {"usd": 0.752, "terms": "", "low": 0.0}}
    assert trimmed(whole) == {"rate": 967.2, "run": None, "price": {"usd": 0.752, "low": 0.0}}


def test_a_list_says_how_many_there_are(context):
    result = TOOLS["networks"].answer(context, {"search": "resnet"})
    assert len(result["networks"]) == 20 < result["total"]


def test_a_hidden_field_is_refused_with_those_that_there_are(context):
    with pytest.raises(UsageError, match="there are: search, limit, full"):
        TOOLS["networks"].answer(context, {"cursor": "x"})


def test_the_command_line_and_the_service_load_no_protocol_unless_it_is_asked_for():
    code = (
        "import sys\nfrom advisor.cli.main import run\nassert run(['mcp', '--help']) == 0\n"
        "import advisor.service.app\nsys.exit('mcp' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


@pytest.mark.parametrize(
    ("tool", "question", "field", "hint"),
    [
        ("recommend", {}, "task", "preprocessing, generation, finetuning"),
        (
            "recommend",
            {"task": "generation", "model": "gpt2", "users": 1},
            "input_tokens",
            "input_tokens and output_tokens",
        ),
        (
            "predict",
            {"task": "training", "model": "resnet50", "instance": "g4dn.xlarge", "batch_size": 10**5},
            "instance",
            "a smaller batch_size",
        ),
        (
            "compare",
            {"task": "training", "model": "net.py:build", "gpu": "T4,L4"},
            "model",
            "from the list of networks",
        ),
        ("memory", {"model": "unknownnet"}, "model", "lists those that are known"),
    ],
)
def test_what_is_wrong_names_its_field_and_a_way_that_an_agent_has(context, tool, question, field, hint):
    with pytest.raises(UsageError) as error:
        TOOLS[tool].answer(context, question)
    document = error_document(error.value)
    assert document["field"] == field
    assert hint in document["hint"]
