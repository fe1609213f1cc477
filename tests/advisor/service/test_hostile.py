"""A real service under requests that nobody should send, and under its own description."""

import itertools
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.served import Served
from tests.advisor.service import hostile
from tests.advisor.service.hostile import Asker, Hostile, defects_in, fuzz, hostile_requests, operations_of

# What the guard says to requests that no description allows is a refusal, too.
CHECKS = """
[checks.negative_data_rejection]
expected-statuses = [400, 401, 403, 404, 405, 408, 409, 413, 415, 422, 431]
"""
SCHEMATHESIS = Path(sys.executable).with_name("schemathesis")


@pytest.fixture(scope="module")
def service():
    with Served("--rate-limit", "0", "--log-level", "warning", modules=hostile.NO_TORCH) as served:
        yield served


@pytest.fixture(scope="module")
def key(service):
    return service.advisor("keys", "add", "any", "--scope", "measure").strip()


@pytest.mark.parametrize("count", [100, pytest.param(10_000, marks=pytest.mark.night)])
def test_hostile_requests_find_no_5xx_no_defect_and_no_leak(service, key, count):
    requests = hostile_requests(operations_of(service), seed=81 + count)
    result = fuzz(service, itertools.islice(requests, count), key)
    assert result.troubles == []
    assert defects_in(service.log) == []
    assert sum(result.statuses.values()) == count


@pytest.mark.parametrize("count", [60, pytest.param(2_000, marks=pytest.mark.night)])
def test_questions_of_any_options_are_answered_or_refused(service, key, count):
    result = fuzz(service, itertools.islice(hostile.plausible_requests(seed=37), count), key)
    assert result.troubles == []
    assert defects_in(service.log) == []
    assert result.statuses[200] > count / 10


def test_every_option_over_http_has_values_that_a_person_would_give():
    """So that an option that is added is tried, too."""
    spared = {*hostile.NOT_OVER_HTTP, *hostile.PLAUSIBLE}
    for kinds in hostile.QUESTIONS.values():
        for name, field in kinds.fields.items():
            schema = field.kind.schema()
            schema = schema.get("items", schema)
            assert name in spared or "enum" in schema or schema["type"] == "boolean", name


@pytest.mark.night
def test_the_service_does_what_its_description_says(service, key, tmp_path):
    """Schemathesis; its checks cannot know that a text may be a text and still no network."""
    if not SCHEMATHESIS.exists():
        pytest.skip("needs schemathesis (extra dev)")
    settings = tmp_path / "schemathesis.toml"
    settings.write_text(CHECKS)
    options = (
        "--phases examples,fuzzing --max-examples 6 --seed 8 --generation-deterministic --no-color "
        "--exclude-checks positive_data_acceptance --exclude-path-regex events|import --request-timeout 60"
    )
    description = f"http://127.0.0.1:{service.port}/openapi.json"
    header = ("--header", f"Authorization: Bearer {key}")
    command = [SCHEMATHESIS, "--config-file", settings, "run", description, *header, *options.split()]
    how = {"env": service.environment, "cwd": service.folder, "capture_output": True, "text": True}
    done = subprocess.run(command, check=False, **how)
    assert done.returncode == 0, done.stdout[-6000:]
    assert defects_in(service.log) == []


def test_connections_that_say_nothing_do_not_keep_others_out(service, key):
    silent = [socket.create_connection(("127.0.0.1", service.port)) for _ in range(200)]
    asker = Asker(service.port, key)
    assert asker.ask(Hostile("plain", "GET", "/v1/networks", ()))[0] == 200
    asker.close()
    for connection in silent:
        connection.close()
