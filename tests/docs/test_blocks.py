"""Code blocks of the documents: each is run, or says why not, and then its options exist.

`<!-- not run: REASON -->` above a block marks one that needs what is not here. The blocks of a page run in
order in one folder, as a reader would type them."""

import json
import pathlib
import re
import shlex
import shutil

import click
import pytest
import yaml

from advisor.cli.main import cli, run
from benchmarks import readme

ROOT = pathlib.Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# A page whose blocks take longer than a few seconds.
SLOW = ("tutorial", "sweeps", "memory")
BLOCK = re.compile(
    r"^(?:<!-- not run: (?P<reason>[^\n]+) -->\n)?```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
NEVER_END = (["serve"], ["schedule", "run"], ["mcp"])


def _blocks(page):
    return [match.groupdict() for match in BLOCK.finditer(page.read_text())]


def _commands(text):
    """The words of each line that calls the advisor, without what the shell takes."""
    for line in text.replace("\\\n", " ").splitlines():
        for part in line.removeprefix("$ ").split("; "):
            if part.startswith("advisor "):
                words = shlex.split(part, comments=True)[1:]
                yield words[: words.index(">")] if ">" in words else words


def _own(words):
    """Without the words that are another program's, or a sketch."""
    return words[: words.index("--")] if "--" in words else words


def _command(words):
    """The command that these words call, and the words after its name."""
    command, rest = cli, list(words)
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        inner = command.get_command(click.Context(command), rest[0])
        if inner is None:
            break
        command, rest = inner, rest[1:]
    return command, rest


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_option_of_a_command_is_one_that_the_command_knows(page):
    inline = re.findall(r"(?<!`)`(advisor [^`\n]+)`(?!`)", page.read_text())
    for text in [*(block["text"] for block in _blocks(page)), *inline]:
        for words in _commands(text):
            command, rest = _command(_own(words))
            assert command is not cli, words
            known = {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
            given = {word.split("=")[0] for word in rest if re.match(r"--?[a-z]", word)}
            assert given <= known | {"--help"}, words


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_in_a_language_is_of_that_language(page):
    for block in _blocks(page):
        readers = {"json": json.loads, "yaml": yaml.safe_load}
        if block["language"] == "python":
            compile(block["text"], str(page), "exec")
        elif block["language"] in readers:
            readers[block["language"]](block["text"])


@pytest.mark.slow
def test_pages_show_what_their_commands_print():
    """`python -m benchmarks.readme` makes them again."""
    answer = readme.answer()
    for page in readme.PAGES:
        assert page.read_text() == readme.with_answer(page.read_text(), answer)
    for page in readme.MARKED:
        assert page.read_text() == readme.with_printed(page.read_text())


@pytest.mark.slow
def test_the_python_of_its_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    session = {}
    for block in _blocks(ROOT / "docs/how-to/python.md"):
        if block["language"] == "python" and not block["reason"]:
            exec(block["text"], session)
    assert (tmp_path / "resnet50.md").is_file()
    assert session["m"].file.is_file()


def _runs(page):
    return any(not block["reason"] and [*_commands(block["text"])] for block in _blocks(page))


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.slow if page.stem in SLOW else (), id=page.stem)
        for page in PAGES
        if _runs(page)
    ],
)
def test_the_commands_of_a_page_answer(page, tmp_path, monkeypatch, capsys):
    """With 0, or with 3 where the page shows what nothing meets."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "docs/examples/workloads.yaml", tmp_path)
    shutil.copy(ROOT / "docs/examples/own_network.py", tmp_path / "net.py")
    for block in _blocks(page):
        if named := re.match(r"# (\w+\.py)\n", block["text"]):
            (tmp_path / named[1]).write_text(block["text"])
        for words in [] if block["reason"] else _commands(block["text"]):
            if words[:1] in NEVER_END or words[:2] in NEVER_END:
                continue
            code = run(words)
            said = capsys.readouterr()
            assert code in ((0, 3) if "One change would do" in block["text"] else (0,)), (words, said.err)
            if target := re.search(rf"{re.escape(words[-1])} > (\S+)", block["text"]):
                (tmp_path / target[1]).write_text(said.out)
