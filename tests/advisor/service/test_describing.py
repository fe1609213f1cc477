"""The description has every route and true examples, and nothing a client names is opened: an audit hook (PEP
578) in a real service writes down each file, process, address and import in which a marker stands that every
text of every route was sent with."""

import json
import re
import subprocess
import sys
from urllib.parse import quote

import jsonschema
import pytest

from advisor.infra.build.documents import openapi
from advisor.questions.commands import RECOMMEND
from benchmarks.served import Served
from tests.advisor.service.hostile import DATA, NO_TORCH, Asker, Hostile, changed, operations_of

METHODS = {"get", "post", "delete", "put", "patch"}


@pytest.fixture
def described(service):
    return service.get("/openapi.json").json()


def test_the_file_is_what_routes_questions_and_answers_give(context, monkeypatch):
    monkeypatch.setenv("ADVISOR_TODAY", context.catalog.as_of.isoformat())
    assert json.loads(openapi.FILE.read_text()) == json.loads(openapi.written(context))


def operations(described):
    for path, item in described["paths"].items():
        for method in METHODS & item.keys():
            yield path, method, item[method]


def validator(described, schema):
    return jsonschema.Draft202012Validator({**schema, "components": described["components"]})


def test_it_is_openapi_3_1_whose_references_lead_somewhere(described):
    assert described["openapi"] == "3.1.0"
    seen = set(re.findall(r'"\$ref": "([^"]*)"', json.dumps(described)))
    assert seen <= {f"#/components/schemas/{name}" for name in described["components"]["schemas"]}
    for schema in described["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


def test_every_example_is_true(described):
    counted = 0
    for _, _, operation in operations(described):
        for part in (operation.get("requestBody", {}), *operation["responses"].values()):
            for content in part.get("content", {}).values():
                if "example" in content:
                    counted += 1
                    validator(described, content["schema"]).validate(content["example"])
    assert counted >= 18


def test_each_operation_documents_its_refusals_and_parameters_once_and_a_link_all_tasks_words(described):
    ours = [item for item in operations(described) if "answers" in item[2].get("tags", ())]
    assert len(ours) == 8
    refusals = {"200", "400", "401", "403", "413", "422", "429", "500", "503"}
    assert [path for path, _, operation in ours if not refusals <= set(operation["responses"])] == []
    for path, method, operation in operations(described):
        text = [(row["in"], row["name"]) for row in operation.get("parameters", ())]
        assert len(text) == len(set(text)), (method, path)
    item, schemas = described["paths"]["/v1/recommend"], described["components"]["schemas"]
    question = schemas["RecommendQuestion"]
    bodies = [schemas[parameter["$ref"].rpartition("/")[2]] for parameter in question["oneOf"]]
    words = {name for body in bodies for name in body["properties"]}
    assert {parameter["name"] for parameter in item["get"]["parameters"]} == words
    required = {parameter["name"] for parameter in item["get"]["parameters"] if parameter["required"]}
    assert required == set.intersection(*(set(body["required"]) for body in bodies))
    mapping = question["discriminator"]["mapping"]
    for task, reference in mapping.items():
        assert task in schemas[reference.rpartition("/")[2]]["properties"]["task"]["enum"]
    assert set(mapping) == set(RECOMMEND.tasks)


MARK = "qzwtmark"
FORMS = [form.replace("MARK", MARK) for form in DATA["marked"]]
HOOK = """
import os, sys
_WATCHED = ("open", "os.", "subprocess.", "socket.", "import", "exec", "compile", "shutil.",
            "sqlite3.connect", "glob.", "ctypes.", "urllib.", "pathlib.", "tempfile.")
_busy = False

def _watch(event, arguments):
    global _busy
    if _busy or not event.startswith(_WATCHED) or event == "compile":
        return
    _busy = True
    try:
        told = repr(arguments)
        if "%(mark)s" in told:
            descriptor = os.open("%(found)s", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            os.write(descriptor, f"{event} {told[:500]}\\n".encode())
            os.close(descriptor)
    finally:
        _busy = False

sys.addaudithook(_watch)
"""


def hostile(operation):
    """The marker in each text of an operation, one at a time, in each form."""
    for form in FORMS:
        for name in operation.in_query:
            yield target(operation, form, f"?{quote(name)}={quote(form)}")
        if operation.in_path or not operation.bodies:
            yield target(operation, form)
        for field in operation.fields:
            yield target(operation, form, body=changed(operation.bodies[0], field, form))
    for field in operation.fields:
        yield target(operation, FORMS[0], body=changed(operation.bodies[0], field, list(FORMS)))


def target(operation, form, query="", body=None):
    path = operation.path
    for name in operation.in_path:
        path = path.replace(f"{{{name}}}", quote(form, safe=""))
    kind = "application/x-ndjson" if path.endswith("/import") else "application/json"
    head = (("Content-Type", kind), ("Last-Event-ID", MARK), ("X-Request-Id", MARK))
    text = b"" if body is None else json.dumps(body).encode()
    return Hostile("marked", operation.method, path + query, head, text)


@pytest.fixture
def watched(tmp_path):
    """A service that writes what it touches of the marker into `found`."""
    result = tmp_path / "found"
    hook = HOOK % {"mark": MARK, "found": result}
    with Served("--rate-limit", "0", modules={"sitecustomize.py": hook, **NO_TORCH}) as service:
        yield service, result


def touched(result):
    return result.read_text().splitlines() if result.exists() else []


def test_the_hook_would_tell(tmp_path):
    result = tmp_path / "found"
    source = HOOK % {"mark": MARK, "found": result}
    script = f"{source}\ntry:\n    open('/nowhere/{MARK}')\nexcept OSError:\n    pass\n"
    subprocess.run([sys.executable, "-c", script], check=True)
    assert [line.split()[0] for line in touched(result)] == ["open"]


@pytest.mark.night
def test_no_name_from_a_client_is_opened_run_or_connected_to(watched):
    service, result = watched
    key = service.advisor("keys", "add", "any", "--scope", "admin").strip()
    operations = operations_of(service)
    assert len(operations) > 15
    asker, sent = Asker(service.port, key), 0
    for operation in operations:
        if operation.path.endswith("/events"):
            continue  # the same id as its sweep's, and an answer that would last
        for request in hostile(operation):
            status, _, _ = asker.ask(request)
            assert status < 500, (request.method, request.target, request.body[:500])
            sent += 1
    asker.close()
    assert sent > 1000
    assert touched(result) == []
