"""English and Chinese, names by what was typed of them, and small files named by their content."""

import base64
import gzip
import hashlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.models.language.configs import bundled_language_models
from advisor.models.performance.networks import bundled_networks
from advisor.render.i18n.catalogue import LANGUAGES
from advisor.service.page.frame import chosen_language, files, static_path
from advisor.service.page.question import MOST, matching

QUESTION = "/?task=inference&model=googlenet&target_throughput=500"


@pytest.mark.parametrize(
    ("question", "remembered", "accepted", "language"),
    [
        (None, None, None, "en"),
        ("zh", "en", "en", "zh-CN"),
        (None, "zh-CN", "en", "zh-CN"),
        (None, None, "zh-TW,zh;q=0.9,en;q=0.8", "zh-CN"),
        (None, None, "de,en;q=0.7,zh;q=0.9", "zh-CN"),
        (None, None, "zh;q=0,de", "en"),
        ("tlh", "fr", "nonsense;q=x", "en"),
    ],
)
def test_the_language_is_the_wanted_one(question, remembered, accepted, language):
    """Address, cookie, browser, English; what nobody speaks is passed over."""
    assert chosen_language(question, remembered, accepted) == language


@given(st.text(max_size=60), st.text(max_size=60), st.text(max_size=80))
def test_any_wish_gets_a_language(question, remembered, accepted):
    assert chosen_language(question, remembered, accepted) in LANGUAGES


def test_an_answer_leaves_nothing_in_english(page):
    result = page(f"{QUESTION}&rejected=all&lang=zh")
    assert len(result.all("span", lang="en")) <= 1


NETWORKS = tuple(bundled_networks().names)
MODELS = tuple(bundled_language_models().names())


@given(st.sampled_from((*NETWORKS, *MODELS)))
def test_a_name_is_among_the_first_that_it_finds(name):
    names = NETWORKS if name in NETWORKS else MODELS
    assert name in matching(names, name)[:MOST]


@given(st.text(max_size=12))
def test_what_is_found_has_every_word_of_the_search(search):
    words = "".join(item if item.isalnum() else " " for item in search.casefold()).split()
    for name in matching(NETWORKS, search):
        plain = name.casefold()
        bare = "".join(item for item in plain if item.isalnum())
        assert all(word in plain for word in words) or "".join(words) in bare


@pytest.mark.parametrize(
    ("search", "first"), [("resnet 50", "resnet50"), ("RESNET50", "resnet50"), ("vit b 16", "vit_b_16")]
)
def test_spaces_and_case_do_not_matter(search, first):
    assert matching(NETWORKS, search)[0] == first


def test_a_list_is_short_says_how_many_there_are_and_is_of_the_cloud(client):
    result = client.get("/names/networks?search=resnet").json()
    assert len(result["names"]) == MOST
    assert result["count"] == len(matching(NETWORKS, "resnet")) > MOST
    assert client.get("/names/nothing").status_code == 404
    ours = client.get("/names/instances?search=g5.xlarge&cloud=aws").json()
    assert ours["names"][0] == "g5.xlarge"
    assert not client.get("/names/instances?search=g5.xlarge&cloud=gcp").json()["names"]


# What a first visit loads, compressed: page, styles and scripts.
MOST_KIB = 40


def test_files_are_light_named_by_their_content_and_kept_for_a_year(client):
    response = client.get(static_path("app.js"))
    assert "immutable" in response.headers["cache-control"]
    kind = response.headers["content-type"]
    assert (response.status_code, kind) == (200, "text/javascript; charset=utf-8")
    for name in ("../routes.py", "nope.js"):
        assert client.get(f"/static/0/{name}").status_code == 404
    page = gzip.compress(client.get("/").content, 5)
    size = len(page) + sum(len(gzip.compress(file, 9)) for file in files().values())
    assert size <= MOST_KIB * 1024


@pytest.mark.parametrize("address", ["/", "/catalog", "/predict", "/compare"])
def test_nothing_holds_up_the_first_paint(page, address):
    result = page(address)
    assert not result.all("link", rel="stylesheet")
    assert all(element.get("type") == "module" for element in result.all("script"))


def test_the_policy_allows_the_pages_own_styles_alone_and_nobody_else_is_asked(client):
    answer = client.get("/compare")
    (text,) = re.findall(r"<style>(.*?)</style>", answer.text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}';" in answer.headers["content-security-policy"]
    # No address of another host stands in what browsers run.
    for name, content in files().items():
        hosts = set(re.findall(rb"https?://([\w.]+)", content)) - {b"www.w3.org", b"github.com"}
        assert not hosts, name
