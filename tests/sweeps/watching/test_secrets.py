"""Passwords never reach a log."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.sweeps.watching.logfile import without_secrets

WORDS = st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=1, max_size=12)
PASSWORDS = st.text(st.characters(codec="ascii", exclude_categories=("Z", "C")), min_size=1, max_size=20)


@given(WORDS, PASSWORDS, WORDS)
def test_a_url_never_shows_its_password(user, password, host):
    secret = f"%{password}%"  # marked, or it may stand elsewhere by chance
    shown = without_secrets(f"cannot reach postgresql://{user}:{secret}@{host}:5432/db now")
    assert secret not in shown
    assert f"postgresql://{user}:***@{host}:5432/db now" in shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("host=db password=hunter2 user=me", "host=db password=*** user=me"),
        ("PGPASSWORD='a b c'; psql", "PGPASSWORD=***; psql"),
        ("db?password=x&sslmode=require", "db?password=***&sslmode=require"),
        ("aws_secret_access_key: AbC/9", "aws_secret_access_key: ***"),
    ],
)
def test_settings_do_not_either(text, shown):
    assert without_secrets(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        'FATAL: password authentication failed for user "me"',
        "sqlite:////data/sweeps.sqlite",
        "see http://127.0.0.1:9464/metrics",
        "mail me@example.org",
    ],
)
def test_what_holds_no_secret_stays(text):
    assert without_secrets(text) == text
