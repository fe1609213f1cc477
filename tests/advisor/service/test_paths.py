"""Nothing that a client names is opened, run, imported or connected to by the service.

A real service runs with an audit hook (PEP 578) in its process, which writes down every file that
is opened, every process that is started, every address that is connected to, every module that is
imported, where a marker stands in its name. Then the marker is sent in every text of every route
that the OpenAPI document describes, in all the forms that a path, a command or a reference to code
can have.
"""

import json
import subprocess
import sys
from urllib.parse import quote

import pytest

from benchmarks.served import Served
from tests.advisor.service.hostile import DATA, NO_TORCH, Asker, Hostile, changed, operations_of

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
        listed = changed(operation.bodies[0], field, list(FORMS))
        yield target(operation, FORMS[0], body=listed)


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
