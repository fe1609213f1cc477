"""Whether a type can run PyTorch and be started, and how many an account may start."""

from __future__ import annotations

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
from tests.rows import assert_each


def noted(supported):
    return " ".join(map(str, supported.notes))


def verdict(instance, gpu=None, needs_gpu=True, closed=None):
    return check(instance, gpu, needs_gpu=needs_gpu, closed=closed)


@pytest.mark.parametrize(
    ("capability", "architecture", "outcome"),
    [
        ("3.7", "x86_64", "unsupported"),
        ("5.0", "x86_64", "CUDA 12.6"),
        ("5.2", "x86_64", "CUDA 12.6"),
        ("6.0", "x86_64", "CUDA 12.6"),
        ("7.0", "x86_64", "CUDA 12.6"),
        ("7.5", "x86_64", ""),
        ("8.9", "x86_64", ""),
        ("10.0", "x86_64", ""),
        ("12.0", "x86_64", ""),
        ("7.5", "arm64", "unsupported"),
        ("8.0", "arm64", ""),
        ("9.0", "arm64", ""),
        ("gfx1011", "x86_64", "unsupported"),
        (None, "x86_64", "facts_missing"),
    ],
)
def test_compute_capability_decides(capability, architecture, outcome):
    """Builds exist from 5.0 on x86-64 (old ones below 7.5) and from 8.0 on arm64."""
    got = verdict(make_instance(architecture=architecture), make_gpu(capability))
    if isinstance(got, Rejection):
        assert got.reason == outcome
    else:
        assert outcome in noted(got)
        assert bool(outcome) == bool(got.notes)


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


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("p2.xlarge", "unsupported"),
        ("p3.2xlarge", "not_offered"),
        ("g3s.xlarge", "not_offered"),
        ("g2.2xlarge", "facts_missing"),
        ("g4ad.xlarge", "unsupported"),
        ("g5g.xlarge", "unsupported"),
        ("dl1.24xlarge", "unsupported"),
        ("inf2.xlarge", "unsupported"),
        ("trn1.2xlarge", "unsupported"),
        ("g6f.large", "facts_missing"),
        ("m5.large", "unsupported"),
    ],
)
def test_real_types_are_rejected_by_name(catalog, name, reason):
    """The catalogue's own traps."""
    instance = catalog.instance(name)
    got = verdict(instance, catalog.gpu_of(instance), closed=catalog.closed(instance, None))
    assert isinstance(got, Rejection)
    assert got.reason == reason


@pytest.mark.parametrize(
    ("name", "note"),
    [
        ("g4dn.xlarge", ""),
        ("g6.xlarge", ""),
        ("p5.48xlarge", ""),
        ("g7e.2xlarge", ""),
        ("p6-b300.48xlarge", ""),
        ("p3dn.24xlarge", "CUDA 12.6"),
    ],
)
def test_real_types_that_run(catalog, name, note):
    """Turing and newer as they are, Volta with an older CUDA build."""
    instance = catalog.instance(name)
    got = verdict(instance, catalog.gpu_of(instance), closed=catalog.closed(instance, None))
    assert isinstance(got, Supported)
    assert note in noted(got)


OFFER = replace(candidate().spec.offer, instance=instance("g5.12xlarge", vcpus=48))


def test_each_family_has_its_quota() -> None:
    def check(name: str, market: Market, code: str | None) -> None:
        assert quota_code(name, market) == code

    assert_each(
        check,
        [
            ("g5.xlarge", Market.ON_DEMAND, "L-DB2E81BA"),
            ("g5.xlarge", Market.COMMITMENT_1Y, "L-DB2E81BA"),
            ("gr6.4xlarge", Market.SPOT, "L-3819A6DF"),
            ("vt1.3xlarge", Market.ON_DEMAND, "L-DB2E81BA"),
            ("p4d.24xlarge", Market.SPOT, "L-7212CCBC"),
            ("p5.48xlarge", Market.SPOT, None),
            ("p5.48xlarge", Market.ON_DEMAND, "L-417A185B"),
            ("c7i.large", Market.ON_DEMAND, "L-1216C47A"),
            ("x2idn.32xlarge", Market.SPOT, "L-E3A00192"),
            ("dl1.24xlarge", Market.ON_DEMAND, "L-6E869C2A"),
            ("trn1.2xlarge", Market.SPOT, "L-5480EFD2"),
            ("inf2.xlarge", Market.ON_DEMAND, "L-1945791B"),
            ("im4gn.large", Market.ON_DEMAND, "L-1216C47A"),
            ("mac2.metal", Market.ON_DEMAND, None),
            ("hpc6a.48xlarge", Market.ON_DEMAND, None),
            ("u-6tb1.56xlarge", Market.ON_DEMAND, None),
        ],
    )


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
    told = "needs 48 vCPUs of quota L-DB2E81BA (Running On-Demand G and VT), which allows 8"
    assert quota_shortfall(OFFER, parse_quota("G=8", Market.ON_DEMAND)) == told
    assert quota_shortfall(OFFER, parse_quota("G=48", Market.ON_DEMAND)) is None
    assert most_startable(OFFER, parse_quota("G=95", Market.ON_DEMAND)) == 1
    assert most_startable(OFFER, parse_quota("G=96", Market.ON_DEMAND)) == 2
    assert most_startable(OFFER, parse_quota("P=0", Market.ON_DEMAND)) == math.inf
    assert quota_shortfall(OFFER, parse_quota("P=0,L-3819A6DF=0", Market.ON_DEMAND)) is None


def test_a_quota_of_aws_says_nothing_of_other_clouds() -> None:
    elsewhere = replace(OFFER, instance=replace(OFFER.instance, cloud="gcp"))
    assert quota_shortfall(elsewhere, parse_quota("G=0", Market.ON_DEMAND)) is None
