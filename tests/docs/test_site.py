"""The docs site: strict, complete, and nothing of it from another host."""

import re

import pytest

from advisor.api import functions
from advisor.api.calling import fields_of
from advisor.questions.question import kinds_of
from docs.site.__main__ import main, pages, settings
from docs.site.arguments import arguments_page
from docs.site.commands import command_pages, commands


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("docs")
    assert main(folder) == 0, "a link or an anchor leads nowhere; `make docs` says where"
    return folder / "site"


def test_no_page_loads_anything_from_another_host(site):
    for page in site.rglob("*.html"):
        loaded = re.findall(r"<(?:script|img|link|iframe)[^>]*(?:src|href)=\"?https?:[^>]*", page.read_text())
        assert not loaded, page


def test_every_page_stands_in_the_navigation():
    """But for the Chinese one, to which the first page leads."""
    named = set(re.findall(r"[\w./-]+\.md", settings()))
    assert {place for place in pages() if place.endswith(".md")} - {"zh-CN.md"} == named


def test_the_page_of_a_command_has_each_of_its_options():
    texts = command_pages()
    for words, command in commands():
        text = texts[words[0]]
        for param in command.params:
            if param.param_type_name == "option" and not param.hidden:
                assert param.opts[0] in text, (words, param.name)


def test_the_page_of_arguments_has_each_of_each_function():
    page = arguments_page()
    for function in vars(functions).values():
        for kind in kinds_of(function.kinds) if hasattr(function, "kinds") else ():
            for name in fields_of(kind, function.sources):
                assert f"| `{name}` |" in page, (function.__name__, name)
