"""What clients of the service may name is checked when the service starts."""

import pytest

from advisor.cli.serve import allowed_settings
from advisor.errors import AdvisorError, UsageError


def test_names_stand_for_whole_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "words.txt").write_text("a b c\n")
    (tmp_path / "net.py").write_text("")
    found = allowed_settings(("ptb=words.txt",), ("mine=net.py:build",))
    assert found["allowed_data"] == {"ptb": str(tmp_path / "words.txt")}
    assert found["allowed_code"] == {"mine": str(tmp_path / "net.py:build")}


@pytest.mark.parametrize("text", ["photos", "=x", "photos=", "../x=y", "a b=c"])
def test_what_is_no_name_and_path_is_refused(text):
    for given in (((text,), ()), ((), (text,))):
        with pytest.raises(UsageError, match="takes a name"):
            allowed_settings(*given)


def test_what_is_not_there_is_refused(tmp_path):
    with pytest.raises(AdvisorError):
        allowed_settings((f"photos={tmp_path / 'none'}",), ())
    with pytest.raises(UsageError, match="there is no file"):
        allowed_settings((), (f"mine={tmp_path / 'none.py'}:build",))
    with pytest.raises(UsageError, match="there is no file"):
        allowed_settings((), (f"mine={tmp_path}",))
