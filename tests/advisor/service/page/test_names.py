"""Names by what was typed of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.models.language.configs import bundled_language_models
from advisor.models.performance.networks import bundled_networks
from advisor.service.page.names import MOST, matching

NETWORKS = tuple(bundled_networks().names)
MODELS = tuple(bundled_language_models().names())


@given(st.sampled_from((*NETWORKS, *MODELS)))
def test_a_name_is_among_the_first_that_it_finds(name):
    """Even where hundreds have it in theirs."""
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


def test_a_list_is_short_and_says_how_many_there_are(client):
    result = client.get("/names/networks?search=resnet").json()
    assert len(result["names"]) == MOST
    assert result["count"] == len(matching(NETWORKS, "resnet")) > MOST
    assert client.get("/names/nothing").status_code == 404


def test_instance_types_are_those_of_the_cloud(client):
    ours = client.get("/names/instances?search=g5.xlarge&cloud=aws").json()
    assert ours["names"][0] == "g5.xlarge"
    assert not client.get("/names/instances?search=g5.xlarge&cloud=gcp").json()["names"]
