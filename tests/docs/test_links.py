"""README and docs: every link leads somewhere, and every command stands in the documents."""

import pathlib
import re

import click
import pytest

from advisor.api import functions
from advisor.api.calling import fields_of
from advisor.catalog import load_catalog
from advisor.models.language.configs import bundled_language_models
from advisor.models.performance.networks import bundled_networks
from advisor.questions.question import kinds_of
from benchmarks.truth import trust
from docs.site.__main__ import main, pages, settings
from docs.site.arguments import arguments_page
from docs.site.commands import command_pages, commands
from tests.rows import table

ROOT = pathlib.Path(__file__).parents[2]
DOCS = sorted((ROOT / "docs").rglob("*.md"))
PAGES = [*sorted(ROOT.glob("*.md")), *DOCS]
FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\]\(([^)\s]+)\)")


def _anchors(page):
    """The anchors that GitHub gives a page's headings."""
    headings = re.findall(r"^#+ (.*)", FENCE.sub("", page.read_text()), re.MULTILINE)
    plain = (re.sub(r"\]\([^)]*\)", "", heading).lower() for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_leads_to_a_file_and_a_heading(page):
    for link in LINK.findall(CODE.sub("", FENCE.sub("", page.read_text()))):
        path, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", link):
            continue
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in _anchors(target), link


def test_every_command_stands_in_the_documents_and_the_readmes_fit_on_three_screens():
    text = " ".join(" ".join(page.read_text() for page in (*DOCS, ROOT / "README.md")).split())
    names = [" ".join(words) for words, one in commands() if not isinstance(one, click.Group)]
    missing = [name for name in names if name not in text]
    assert missing == []
    assert max(len(text.splitlines()) for text in (ENGLISH, CHINESE)) <= 120


# README.md and README.zh-CN.md say the same: sections, commands, links and exit codes.

ENGLISH = (ROOT / "README.md").read_text()
CHINESE = (ROOT / "README.zh-CN.md").read_text()
BLOCK = re.compile(r"```\n.*?```", re.DOTALL)


def _levels(text):
    return [line.split()[0] for line in BLOCK.sub("", text).splitlines() if line.startswith("#")]


def test_both_have_the_same_sections_commands_and_options_and_lead_to_the_same_documents():
    assert _levels(ENGLISH) == _levels(CHINESE)
    assert BLOCK.findall(ENGLISH) == BLOCK.findall(CHINESE)
    told = [set(re.findall(r"`[^`]*?(--[a-z-]+)", BLOCK.sub("", text))) for text in (ENGLISH, CHINESE)]
    assert told[0] == told[1]
    links = [set(re.findall(r"\]\((docs/[\w/]+\.md)\)", text)) for text in (ENGLISH, CHINESE)]
    assert links[0] == links[1]
    assert "(README.zh-CN.md)" in ENGLISH
    assert "(README.md)" in CHINESE
    for link in links[0]:
        assert (ROOT / link).is_file(), link


def test_chinese_text_has_chinese_punctuation():
    text = re.sub(r"`[^`]*`|\]\([^)]*\)", "", BLOCK.sub("", CHINESE))
    assert not re.search("[\u4e00-\u9fff][,;:?(]", text)


# What the docs count is what there is.


@pytest.mark.parametrize(("page", "words"), table("docs")["counted"])
def test_a_page_counts_what_is_known(page, words):
    catalog = load_catalog()
    table = ROOT / "advisor/data/performance/networks.csv"
    known = {
        "checkpoints": len(bundled_language_models().names()),
        "networks": len(bundled_networks().names),
        "inputs": len(table.read_text().splitlines()) - 1,
        **{cloud: len(catalog.regions(cloud)) for cloud in ("aws", "gcp", "azure")},
    }
    assert words.format(**known) in (ROOT / page).read_text()


# The page on trust shows the figures of what ships.


def test_the_page_has_the_figures_that_the_scorers_wrote():
    page = trust.PAGE.read_text()
    assert page == trust.with_block(page), "python -m benchmarks.truth.trust"
    assert trust.TESTS.read_text() == trust.tests(), "python -m benchmarks.truth.trust"
    assert trust.block() in page
    for readme in trust.READMES:
        text = readme.read_text()
        assert text == trust.quoted(text, trust.language_of(readme)), "python -m benchmarks.truth.trust"


# The docs site: strict, complete, and nothing of it from another host.


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
    named = set(re.findall(r"[\w./-]+\.md", settings()))
    assert {place for place in pages() if place.endswith(".md")} - {"zh-CN.md"} == named


def test_the_pages_of_commands_and_arguments_have_each_of_theirs():
    texts = command_pages()
    for words, command in commands():
        text = texts[words[0]]
        for param in command.params:
            if param.param_type_name == "option" and not param.hidden:
                assert param.opts[0] in text, (words, param.name)
    page = arguments_page()
    for function in vars(functions).values():
        for kind in kinds_of(function.kinds) if hasattr(function, "kinds") else ():
            for name in fields_of(kind, function.sources):
                assert f"| `{name}` |" in page, (function.__name__, name)
