"""What clients of the service may name; what it may not be is among the refusals."""

from advisor.cli.serve import allowed_code, allowed_data


def test_names_stand_for_whole_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "words.txt").write_text("a b c\n")
    (tmp_path / "net.py").write_text("")
    assert allowed_data("ptb=words.txt") == ("ptb", str(tmp_path / "words.txt"))
    assert allowed_code("mine=net.py:build") == ("mine", str(tmp_path / "net.py:build"))
