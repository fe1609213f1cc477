"""Whether a type can run PyTorch and be started, and how many an account may start."""

import math

import pytest
from msgspec.structs import replace

from advisor.catalog import Rejection, Supported, check
from advisor.catalog.support import most_startable, parse_quota, quota_code, quota_shortfall
from advisor.domain import Market
from advisor.domain.orderable import NotOrderable
from advisor.errors import UsageError
from advisor.messages import Message
from tests.advisor.catalog.builders import make_cpu_instance, make_gpu, make_instance
from tests.builders import candidate, instance
from tests.rows import assert_each, table

TABLES = table("support")


def noted(supported):
    return " ".join(map(str, supported.notes))


def verdict(instance, gpu=None, needs_gpu=True, closed=None):
    return check(instance, gpu, needs_gpu=needs_gpu, closed=closed)


REASONS = ("unsupported", "not_offered", "facts_missing")


def require(got, outcome):
    """A verdict is the rejection for that reason, or has that word in its notes."""
    if outcome in REASONS:
        assert isinstance(got, Rejection)
        assert got.reason == outcome
    else:
        assert isinstance(got, Supported)
        assert outcome in noted(got)


@pytest.mark.parametrize(("capability", "architecture", "outcome"), TABLES["capability"])
def test_compute_capability_decides(capability, architecture, outcome):
    """Builds exist from 5.0 on x86-64 (old ones below 7.5) and from 8.0 on arm64."""
    got = verdict(make_instance(architecture=architecture), make_gpu(capability))
    require(got, outcome)
    assert isinstance(got, Rejection) or bool(outcome) == bool(got.notes)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"gpu_vendor": "AMD", "gpu_name": "Radeon Pro V520"}, "unsupported"),
        ({"gpu_vendor": "Habana", "gpu_name": "Gaudi HL-205"}, "unsupported"),
        ({"gpu_fraction": 0.125}, "facts_missing"),
        ({"burstable": True}, "facts_missing"),
        ({"ebs_baseline_mib_per_second": None}, "facts_missing"),
        ({"architecture": "arm64_mac"}, "unsupported"),
    ],
)
def test_rejections_name_their_reason(changes, reason):
    """However cheap, what cannot run or is not known is not ranked."""
    got = verdict(make_instance(**changes), make_gpu())
    assert isinstance(got, Rejection)
    assert got.reason == reason
    assert got.detail


def test_a_gpu_without_a_data_sheet_is_not_guessed():
    """RTX PRO 6000 and the like: named, not ranked."""
    got = verdict(make_instance(gpu_name="RTX PRO Server 6000"), None)
    assert got.reason == "facts_missing"
    assert str(got.detail) == "no data sheet for its RTX PRO Server 6000"


def test_cpu_types_run_preprocessing_and_nothing_that_needs_a_gpu():
    """Preprocessing has no accelerator stage."""
    instance = make_cpu_instance()
    assert verdict(instance, needs_gpu=False) == Supported()
    assert verdict(instance) == Rejection("unsupported", Message("has no GPU"))
    accelerated = make_cpu_instance(accelerator="AWS Trainium")
    assert "AWS Trainium" in str(verdict(accelerated).detail)


def test_gpu_types_may_preprocess_whatever_their_gpu():
    """An AMD card does not keep its host from decoding images."""
    assert verdict(make_instance(gpu_vendor="AMD"), needs_gpu=False) == Supported()


def test_a_type_that_the_region_lacks_is_not_offered():
    """Sold elsewhere is not enough."""
    closed = NotOrderable(cloud="aws", status="elsewhere")
    assert verdict(make_instance(), make_gpu(), closed=closed).reason == "not_offered"


@pytest.mark.parametrize(("name", "outcome"), TABLES["types"])
def test_real_types_run_or_are_rejected_by_name(catalog, name, outcome):
    """The catalogue's own traps; Turing and newer as they are, Volta with an older CUDA build."""
    instance = catalog.instance(name)
    closed = catalog.closed(instance, None)
    require(verdict(instance, catalog.gpu_of(instance), closed=closed), outcome)


OFFER = replace(candidate().spec.offer, instance=instance("g5.12xlarge", vcpus=48))


def test_each_family_has_its_quota() -> None:
    def check(name: str, market: str, code: str | None) -> None:
        assert quota_code(name, Market(market)) == code

    assert_each(check, TABLES["quotas"])


@pytest.mark.parametrize(
    ("text", "market", "pairs"),
    [
        ("G=8,P=0", Market.ON_DEMAND, (("L-DB2E81BA", 8.0), ("L-417A185B", 0.0))),
        ("g and vt=8", Market.SPOT, (("L-3819A6DF", 8.0),)),
        ("vt = 8", Market.ON_DEMAND, (("L-DB2E81BA", 8.0),)),
        ("Standard=5", Market.ON_DEMAND, (("L-1216C47A", 5.0),)),
        ("l-db2e81ba=8", Market.SPOT, (("L-DB2E81BA", 8.0),)),
    ],
)
def test_quotas_are_told_by_family_or_code(text, market, pairs) -> None:
    assert parse_quota(text, market) == pairs


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("G", "as G=8,P=0"),
        ("G=8,", "as G=8,P=0"),
        ("G=-1", "0 or more"),
        ("G=nan", "0 or more"),
        ("G=inf", "0 or more"),
        ("G=", "0 or more"),
        ("G=8,VT=4", "twice"),
        ("L-DB2E81BB=8", "L-DB2E81BA"),
        ("Q=8", "unknown quota"),
    ],
)
def test_a_quota_that_is_none_is_refused_with_the_way_out(text, hint) -> None:
    with pytest.raises(UsageError, match=hint):
        parse_quota(text, Market.ON_DEMAND)


def test_only_what_the_quota_of_its_market_holds_may_be_started() -> None:
    text = "needs 48 vCPUs of quota L-DB2E81BA (Running On-Demand G and VT), which allows 8"
    assert quota_shortfall(OFFER, parse_quota("G=8", Market.ON_DEMAND)) == text
    assert quota_shortfall(OFFER, parse_quota("G=48", Market.ON_DEMAND)) is None
    assert most_startable(OFFER, parse_quota("G=95", Market.ON_DEMAND)) == 1
    assert most_startable(OFFER, parse_quota("G=96", Market.ON_DEMAND)) == 2
    assert most_startable(OFFER, parse_quota("P=0", Market.ON_DEMAND)) == math.inf
    assert quota_shortfall(OFFER, parse_quota("P=0,L-3819A6DF=0", Market.ON_DEMAND)) is None


def test_a_quota_of_aws_says_nothing_of_other_clouds() -> None:
    elsewhere = replace(OFFER, instance=replace(OFFER.instance, cloud="gcp"))
    assert quota_shortfall(elsewhere, parse_quota("G=0", Market.ON_DEMAND)) is None
