"""`advisor keys` as a user types it."""

import json

import pytest

from advisor.service.audit import default_audit_log
from advisor.store.keys import key_id_of


@pytest.fixture
def listed(answer):
    return lambda: answer("keys", "list")["keys"]


def test_a_revoked_key_stays_listed_its_name_is_free_and_the_audit_log_tells_no_key(shown, listed, stderr):
    assert "'--scope'. Choose from read, measure, admin" in stderr("keys", "add", "ci")
    key = shown("keys", "add", "ci", "--scope", "read").strip()
    assert shown("keys", "revoke", "ci").startswith("Revoked key 'ci'")
    assert "already" in shown("keys", "revoke", "ci")
    text = default_audit_log().read_text()
    shown("keys", "add", "ci", "--scope", "admin")
    assert [row["state"] for row in listed()] == ["revoked", "works"]
    assert [json.loads(line)["event"] for line in text.splitlines()] == ["key-added", "key-revoked"]
    assert key.split("_", 2)[2] not in text


def test_no_key_is_made_that_could_not_be_noted_and_one_is_printed_once_alone_on_stdout(
    shown, listed, ask, tmp_path
):
    assert "this machine only" in shown("keys", "list")
    code, out, err = ask("keys", "add", "ci", "--scope", "read", "--audit-log", str(tmp_path))
    assert (code, out, "--audit-log" in err, listed()) == (1, "", True, [])
    code, out, err = ask("keys", "add", "ci", "--scope", "measure", "--expires", "90d")
    key = out.strip()
    assert (code, key in err, "every request needs a key" in err) == (0, False, True)
    assert key_id_of(key)
    (row,) = listed()
    assert (row["name"], row["scope"], row["state"]) == ("ci", "measure", "works")
    assert key.split("_", 2)[2] not in json.dumps(row)
    assert row["id"] in shown("keys", "list")
