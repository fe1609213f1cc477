"""What an answer leaves out is told: clouds by the region's name, and types with old prices."""

from datetime import date

import pytest

from advisor.answers.context import left_out
from advisor.catalog import OfferQuery, load_catalog
from advisor.questions.spec import SpecQuestion

DAY = date(2026, 11, 23)


@pytest.fixture(scope="module")
def catalog():
    return load_catalog()


def test_a_region_of_one_cloud_leaves_out_the_others(catalog):
    request = SpecQuestion(cloud="any", region="eu-west-1")
    (note,) = left_out(request, catalog, DAY, strict=False)
    named = set(note.parameters["clouds"])
    assert named == {name for name in catalog.clouds if "eu-west-1" not in catalog.regions(name)}
    assert {"runpod", "oci"} <= named
    assert "aws" not in named
    assert str(note).startswith("--region eu-west-1 leaves out")


@pytest.mark.parametrize(("cloud", "region"), [("any", None), ("aws", "eu-west-1")])
def test_who_names_no_region_of_all_clouds_leaves_none_out(catalog, cloud, region):
    notes = left_out(SpecQuestion(cloud=cloud, region=region), catalog, DAY, strict=False)
    assert not [note for note in notes if "leaves out" in str(note)]


def test_prices_in_a_currency_without_a_rate_are_left_out_by_name(catalog, monkeypatch):
    (note,) = left_out(SpecQuestion(cloud="any", region=None), catalog, DAY, strict=False)
    assert {"leafcloud", "ovh"} <= set(note.parameters["clouds"])
    assert "ADVISOR_EUR_PER_USD" in str(note)
    assert left_out(SpecQuestion(cloud="aws", region=None), catalog, DAY, strict=False) == ()
    monkeypatch.setenv("ADVISOR_EUR_PER_USD", "0.9")
    known = load_catalog()
    assert left_out(SpecQuestion(cloud="any", region=None), known, DAY, strict=False) == ()


def test_strict_counts_the_types_whose_every_price_is_old(catalog):
    request = SpecQuestion(cloud="verda", region=None)
    offers = catalog.offers(OfferQuery(cloud="verda"))
    (note,) = left_out(request, catalog, DAY, strict=True)
    types = {offer.instance.name for offer in offers if offer.market is request.market}
    assert note.parameters["count"] == len(types)
    oldest = min(offer.price.as_of for offer in offers)
    assert left_out(request, catalog, oldest, strict=True) == ()
