"""`recommend --live`: held to what AWS tells, bounded in time, never worse than the snapshot."""

import json
import threading

import pytest

from advisor.catalog import OfferQuery
from advisor.cli.main import run
from tests.advisor.live.aws import BUNDLED, REGION, fill, known_prices
from tests.advisor.render.schemas import assert_keeps
from tests.infra.live.recorded import Recorded, product

QUESTION = ["recommend", "--task", "inference", "--model", "googlenet"]
FAST = [*QUESTION, "--target-throughput", "500"]
ACCELERATED = OfferQuery(cloud="aws", region=REGION, accelerated=True)
GPU_TYPES = [offer.instance.name for offer in BUNDLED.offers(ACCELERATED)]


@pytest.fixture
def aws(recorded, monkeypatch) -> Recorded:
    """All as the snapshot says, on the day of the tests, with quotas, and time enough."""
    for bound in ("TOTAL_SECONDS", "ANSWER_SECONDS"):
        monkeypatch.setattr(f"advisor.answers.live.checking.{bound}", 200.0)
    monkeypatch.setenv("ADVISOR_TODAY", "2026-11-21")
    fill(recorded, known_prices(GPU_TYPES))
    recorded.quotas = {"L-DB2E81BA": 1000.0, "L-417A185B": 1000.0, "L-3819A6DF": 1000.0}
    return recorded


@pytest.fixture
def ask(ask):
    """Exit code, document and stderr of a recommendation."""

    def command(*arguments):
        code, out, err = ask(*arguments, "-o", "json")
        document = json.loads(out) if out else {}
        if out:
            assert_keeps(document, "recommendation")
        return code, document, err

    return command


def leading(document: dict) -> list[str]:
    specs = [document["recommendation"], *document["alternatives"]]
    return [spec["instance_type"] for spec in specs[:3]]


def test_the_chosen_one_and_two_runners_up_are_verified(aws, ask) -> None:
    _, before, _ = ask(*FAST)
    assert (before["live"], aws.operations) == (None, [])
    code, document, err = ask(*FAST, "--live")
    assert (code, leading(document)) == (0, leading(before))
    assert "asking AWS about" in err
    checked = {row["instance_type"]: row for row in document["live"]["checked"]}
    assert list(checked) == leading(document)
    assert all(row["verified"] and not row["changed"] for row in checked.values())
    assert all(row["vcpu_quota"] == 1000.0 for row in checked.values())
    price = document["recommendation"]["price"]
    assert (price["kind"], price["as_of"]) == ("list", "2026-11-21")
    assert document["live"]["warnings"] == []
    assert not any("days old" in warning and "instance price" in warning for warning in document["warnings"])
    _, document, _ = ask(*FAST, "--live", "--max-results", "1")
    assert (document["alternatives"], len(document["live"]["checked"])) == ([], 3)


def test_each_round_is_decided_on_what_was_told_until_the_leading_three_are_verified(aws, ask) -> None:
    prices = known_prices(GPU_TYPES)
    fill(aws, {name: 1.5 * usd for name, usd in prices.items()})
    _, document, _ = ask(*FAST, "--live")
    checked = {row["instance_type"]: row for row in document["live"]["checked"]}
    assert len(checked) > 3
    assert any(row["changed"] for row in checked.values())
    assert set(leading(document)) <= set(checked)
    chosen = document["recommendation"]
    assert chosen["price"]["usd_per_hour"] == pytest.approx(1.5 * prices[chosen["instance_type"]])


def test_what_the_account_may_not_start_is_not_chosen(aws, ask) -> None:
    aws.quotas["L-DB2E81BA"] = 4.0
    _, document, _ = ask(*FAST, "--live")
    assert document["request"]["vcpu_quota"]["L-DB2E81BA"] == 4.0
    assert document["rejected_counts"]["quota"] > 0
    chosen = document["recommendation"]
    assert chosen["vcpus"] <= 4 or not chosen["instance_type"].startswith("g")
    aws.quotas["L-DB2E81BA"] = 1000.0
    _, document, _ = ask(*FAST, "--live", "--quota", "G=16")
    assert document["request"]["vcpu_quota"]["L-DB2E81BA"] == 16.0, "what the user said is less"


def test_an_implausible_price_is_not_believed_and_the_answer_says_so(aws, ask) -> None:
    _, before, _ = ask(*FAST)
    first = before["recommendation"]["instance_type"]
    aws.products[first] = [product(first, "0.001")]
    _, document, _ = ask(*FAST, "--live")
    assert document["recommendation"]["price"] == before["recommendation"]["price"]
    (line,) = document["live"]["warnings"]
    assert line.startswith(f"the price of {first} is not verified: $0.0010/h is 0.00133")


@pytest.mark.parametrize(
    "fault",
    [
        *("throttle", "denied", "garbage"),
        *(pytest.param(fault, marks=pytest.mark.slow) for fault in ("expired", "cut", "broken", "hang")),
    ],
)
def test_a_service_that_fails_costs_a_warning_and_no_answer(aws, impatient, ask, fault, monkeypatch) -> None:
    monkeypatch.setattr("advisor.answers.live.checking.ANSWER_SECONDS", 1.5)
    _, before, _ = ask(*FAST)
    for operation in ("GetProducts", "DescribeInstanceTypeOfferings", "GetServiceQuota"):
        aws.faulty[operation] = fault
    code, document, _ = ask(*FAST, "--live")
    assert (code, document["recommendation"]) == (0, before["recommendation"])
    assert document["live"]["warnings"]
    assert document["warnings"][0].startswith("not verified live (offerings): ")
    assert not any("\n" in warning for warning in document["warnings"])


@pytest.mark.parametrize("operation", ["DescribeInstanceTypeOfferings", "GetServiceQuota"])
def test_prices_are_verified_where_another_service_refuses(aws, ask, operation) -> None:
    aws.faulty[operation] = "denied"
    _, document, _ = ask(*FAST, "--live")
    assert document["recommendation"]["price"]["as_of"] == "2026-11-21"
    assert len(document["live"]["warnings"]) == 1


def test_without_credentials_it_is_told_once(ask, monkeypatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    code, document, _ = ask(*FAST, "--live")
    (line,) = document["live"]["warnings"]
    assert code == 0
    assert "aws configure" in line


def test_strict_refuses_what_could_not_be_verified_and_takes_what_could(aws, ask, monkeypatch) -> None:
    spot = (*FAST, "--market", "spot", "--live", "--strict")
    code, document, _ = ask(*spot)
    assert code == 0
    assert document["recommendation"]
    aws.faulty["DescribeSpotPriceHistory"] = "denied"
    code, document, err = ask(*spot)
    assert (code, document) == (5, {})
    assert "days old" in err


def test_commitments_have_no_live_prices(aws, ask) -> None:
    code, document, _ = ask(*FAST, "--cloud", "gcp", "--market", "commitment-1y", "--live")
    assert code == 0
    assert document["live"]["checked"] == []
    assert "live prices exist for aws, azure, gcp only" in document["warnings"][0]
    assert aws.operations == []


def test_nothing_that_answers_is_verified_by_what_comes_nearest(aws, ask) -> None:
    """A price that fell since the snapshot may let something answer within the limit."""
    limited = [*FAST, "--gpu", "T4", "--max-price", "0.5"]
    code, before, _ = ask(*limited)
    assert (code, before["recommendation"]) == (3, None)
    aws.products["g4dn.2xlarge"] = [product("g4dn.2xlarge", "0.45")]
    code, document, _ = ask(*limited, "--live")
    assert code == 0
    assert document["recommendation"]["instance_type"] == "g4dn.2xlarge"


def test_the_table_says_what_was_verified(aws, capsys) -> None:
    aws.products["g4dn.2xlarge"] = [product("g4dn.2xlarge", "0.7")]
    assert run([*FAST, "--live"]) == 0
    out, _ = capsys.readouterr()
    assert "list price of 2026-11-21" in out
    assert "live        g4dn.2xlarge $0.700/h (was $0.752), offered, quota 1000 vCPUs" in out


def test_a_hang_everywhere_is_over_in_time(aws, impatient, ask, monkeypatch) -> None:
    """All services hang for longer than the bound: each is asked once and given up."""
    monkeypatch.setattr("advisor.answers.live.checking.TOTAL_SECONDS", 0.5)
    for operation in ("GetProducts", "DescribeInstanceTypeOfferings", "GetServiceQuota"):
        aws.faulty[operation] = "hang"
    code, document, _ = ask(*FAST, "--live")
    assert code == 0
    assert document["warnings"][0].startswith("not verified live")
    assert all(thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread())
