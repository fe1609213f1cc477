"""`advisor keys` as a user types it."""

import json

import pytest

from advisor.service.audit import default_audit_log
from advisor.store.keys import key_id_of


@pytest.fixture
def listed(answer):
    return lambda: answer("keys", "list")["keys"]


def test_a_key_is_printed_once_alone_on_stdout(shown, listed, ask):
    code, out, err = ask("keys", "add", "ci", "--scope", "measure", "--expires", "90d")
    key = out.strip()
    assert code == 0
    assert key_id_of(key)
    assert key not in err
    assert "every request needs a key" in err
    (row,) = listed()
    assert (row["name"], row["scope"], row["state"]) == ("ci", "measure", "works")
    assert key.split("_", 2)[2] not in json.dumps(row)
    assert row["id"] in shown("keys", "list")


def test_a_revoked_key_stays_on_the_list_and_its_name_is_free(shown, listed, ask):
    ask("keys", "add", "ci", "--scope", "read")
    code, out, _ = ask("keys", "revoke", "ci")
    assert (code, out.startswith("Revoked key 'ci'")) == (0, True)
    assert "already" in shown("keys", "revoke", "ci")
    assert ask("keys", "add", "ci", "--scope", "admin")[0] == 0
    assert [row["state"] for row in listed()] == ["revoked", "works"]


def test_key_changes_are_on_the_audit_log_without_the_key(shown, ask):
    key = shown("keys", "add", "ci", "--scope", "read").strip()
    ask("keys", "revoke", "ci")
    ask("keys", "revoke", "ci")
    text = default_audit_log().read_text()
    assert [json.loads(line)["event"] for line in text.splitlines()] == ["key-added", "key-revoked"]
    assert key.split("_", 2)[2] not in text


def test_no_key_is_made_where_it_could_not_be_written_down(listed, ask, tmp_path):
    code, out, err = ask("keys", "add", "ci", "--scope", "read", "--audit-log", str(tmp_path))
    assert (code, out) == (1, "")
    assert "--audit-log" in err
    assert listed() == []


def test_without_keys_it_is_told_who_may_ask(shown):
    assert "this machine only" in shown("keys", "list")
