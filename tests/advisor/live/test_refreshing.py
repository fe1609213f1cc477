"""A refresh takes what can be believed, says what it refused, and never hurts what is kept."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import date

import pytest

from advisor.answers.live.refreshing import types_to_ask
from advisor.catalog import OfferQuery, load_catalog
from advisor.catalog.overlay import read_overlay
from advisor.domain import Market
from advisor.errors import DataError
from tests.advisor.live.aws import BUNDLED, REGION, T4, fill, known_prices, refreshed
from tests.infra.live.recorded import Recorded, product

FILE = "aws.refreshed.json"


@pytest.fixture
def aws(recorded) -> Recorded:
    fill(recorded, known_prices(T4))
    return recorded


def test_an_observed_spot_price_replaces_the_estimate_and_keeps_its_band(aws, tmp_path) -> None:
    _, catalog = refreshed(tmp_path, T4, Market.SPOT)
    price = catalog.price("g4dn.xlarge", REGION, Market.SPOT)
    assert (price.kind, price.usd_per_hour) == ("observed", pytest.approx(0.526 / 3, abs=1e-6))
    assert price.terms.startswith("zone us-east-1a; ")
    assert price.terms.endswith("interrupted within a month (of the snapshot)")
    _, again = refreshed(tmp_path, T4, Market.SPOT)
    assert again.price("g4dn.xlarge", REGION, Market.SPOT) == price
    assert again.price("g4dn.xlarge", REGION) == BUNDLED.price("g4dn.xlarge", REGION)


def test_a_withdrawn_type_is_not_ranked_and_says_so(aws, tmp_path) -> None:
    aws.types.remove("g4dn.xlarge")
    outcome, catalog = refreshed(tmp_path, T4)
    assert outcome.withdrawn == ("g4dn.xlarge",)
    assert not catalog.is_offered("g4dn.xlarge", REGION)
    assert catalog.is_offered("g4dn.xlarge", "us-west-2")
    query = OfferQuery(cloud="aws", region=REGION, gpus=("T4",), market=Market.ON_DEMAND)
    assert "g4dn.xlarge" not in {offer.instance.name for offer in catalog.offers(query)}
    (why,) = [offer for offer in catalog.unpriced(query) if offer.instance_type == "g4dn.xlarge"]
    assert why.reason == "not_offered"
    assert "us-east-1 no longer offers it" in str(why.detail)
    fill(aws, known_prices(T4))
    outcome, catalog = refreshed(tmp_path, T4)
    assert outcome.returned == ("g4dn.xlarge",)
    assert catalog.price("g4dn.xlarge", REGION).usd_per_hour == 0.526


def test_an_empty_answer_does_not_take_all_types_away(aws, tmp_path) -> None:
    names = [instance.name for instance in BUNDLED.instances("aws") if instance.gpu_name == "A10G"]
    aws.types = []
    outcome, catalog = refreshed(tmp_path, names)
    assert outcome.withdrawn == ()
    assert any("not believed" in line for line in outcome.warnings)
    assert all(catalog.is_offered(name, REGION) for name in names)


@pytest.mark.parametrize("fault", ["throttle", "denied", "garbage", "broken"])
def test_prices_are_taken_where_offerings_cannot_be_asked(aws, tmp_path, fault) -> None:
    aws.faulty["DescribeInstanceTypeOfferings"] = fault
    outcome, catalog = refreshed(tmp_path, T4)
    assert len([answer for answer in outcome.answers if answer.price]) == len(T4)
    assert "whether the types are still offered is not known" in outcome.warnings[0]
    assert catalog.is_offered("g4dn.xlarge", REGION)


def test_ctrl_c_half_way_leaves_all_as_it_was(aws, tmp_path) -> None:
    refreshed(tmp_path, T4)
    kept = (tmp_path / FILE).read_bytes()

    def interrupted(line: str) -> None:
        if "3 of 3" in line:
            raise KeyboardInterrupt

    aws.products["g4dn.xlarge"] = [product("g4dn.xlarge", "0.4")]
    with pytest.raises(KeyboardInterrupt):
        refreshed(tmp_path, T4, say=interrupted)
    assert (tmp_path / FILE).read_bytes() == kept


def test_two_refreshes_at_once_lose_nothing(aws, tmp_path) -> None:
    names = [instance.name for instance in BUNDLED.instances("aws") if instance.gpu_name == "T4"]
    names = list(known_prices(names))
    fill(aws, known_prices(names))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda name: refreshed(tmp_path, [name]), names))
    assert {key[0] for key in read_overlay(tmp_path, "aws").prices} == set(names)


def test_older_refreshed_prices_do_not_hide_a_newer_snapshot(aws, tmp_path) -> None:
    aws.products["g4dn.xlarge"] = [product("g4dn.xlarge", "0.4")]
    _, catalog = refreshed(tmp_path, T4, today=date(2026, 7, 1))
    assert catalog.price("g4dn.xlarge", REGION) == BUNDLED.price("g4dn.xlarge", REGION)


@pytest.mark.parametrize(
    "harm",
    [
        lambda content: b"",
        lambda content: content[: len(content) // 2],
        lambda content: content[:-1],
        lambda content: content.replace(b"0.526", b"0.026"),
        lambda content: content.replace(b'"prices"', b'"price"'),
        lambda content: b"[]",
        lambda content: b"\xff\xfe",
        lambda content: json.dumps(json.loads(content)).encode(),
    ],
)
def test_a_damaged_file_is_never_read_and_the_snapshot_answers(aws, tmp_path, harm, caplog) -> None:
    refreshed(tmp_path, T4)
    file = tmp_path / FILE
    file.write_bytes(harm(file.read_bytes()))
    with pytest.raises(DataError, match="--forget"):
        read_overlay(tmp_path, "aws")
    catalog = load_catalog(imports=tmp_path)
    assert catalog.price("g4dn.xlarge", REGION) == BUNDLED.price("g4dn.xlarge", REGION)
    (line,) = caplog.messages
    assert "are damaged" in line
    load_catalog(imports=tmp_path)
    assert len(caplog.messages) == 1
    caplog.clear()
    refreshed(tmp_path, T4)
    assert len(read_overlay(tmp_path, "aws").prices) == len(T4)


def test_only_what_the_region_offers_is_asked_for_unless_it_is_named() -> None:
    names = types_to_ask(BUNDLED, REGION, OfferQuery(cloud="aws", accelerated=True))
    assert 60 < len(names) < 150
    assert all(BUNDLED.is_offered(name, REGION) for name in names)
    named = OfferQuery(cloud="aws", instances=("P2.XLARGE",))
    assert types_to_ask(BUNDLED, REGION, named) == ("p2.xlarge",)
