"""What a query looks for, whether a type can run PyTorch, and how many an account may start."""

import math
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from advisor.catalog import OfferQuery, Rejection, Supported, check, load_catalog
from advisor.catalog.bundle import DATA_FOLDER
from advisor.catalog.prices import is_gpu, matches_instance
from advisor.catalog.support import most_startable, parse_quota, quota_code, quota_shortfall
from advisor.domain import Market, Range
from advisor.errors import UsageError
from advisor.messages import Message
from tests.advisor.catalog.builders import make_cpu_instance, make_gpu, make_instance, make_offer
from tests.builders import candidate, instance
from tests.rows import assert_each, table


def matches(offer, query, capability=None):
    """Whether an offer is what the query looks for, by all of its terms."""
    return (
        query.region in (None, offer.region)
        and query.market in (None, offer.market)
        and (query.max_usd_per_hour is None or offer.price.usd_per_hour <= query.max_usd_per_hour)
        and matches_instance(offer.instance, query, capability)
    )


def test_each_term_decides_alone_and_other_accelerators_count_as_accelerated():
    """An on-demand T4 in us-east-1 at $0.50."""

    def check(field, fit, others):
        hits = [matches(make_offer(), OfferQuery(**{field: value}), 7.5) for value in (*fit, *others)]
        assert hits == [True] * len(fit) + [False] * len(others)

    assert_each(
        check,
        [
            ("cloud", ("aws", "any"), ("gcp",)),
            ("region", ("us-east-1",), ("us-east-2",)),
            ("market", (None,), (Market.SPOT,)),
            ("gpus", (("t4",), ("L4", "T4")), (("L4",),)),
            ("min_gpu_memory_mib", (15360, 16384), (17000,)),  # it is sold as a 16 GiB card
            ("max_gpu_memory_mib", (15360,), (15359,)),
            ("compute_capability", (Range(7.5),), (Range(8.0), Range(None, 7.0))),
            ("vcpus", (Range(4, 4),), (Range(5), Range(None, 3))),
            ("memory_mib", (Range(16384, 16384),), (Range(16385),)),
            ("max_usd_per_hour", (0.5,), (0.499,)),
            ("instances", (("g9.xlarge",),), (("g9.2xlarge",),)),
            ("accelerated", (True,), (False,)),
        ],
    )
    # An Inferentia type is looked at, so that it can be rejected by name; a CPU type is not.
    query = OfferQuery(accelerated=True)
    assert matches(make_offer(make_cpu_instance(accelerator="AWS Inferentia2")), query)
    assert not matches(make_offer(make_cpu_instance()), query)
    assert not matches(make_offer(make_cpu_instance()), OfferQuery(min_gpu_memory_mib=1))


def test_gpu_names_match_whole_words():
    others = [("A100-SXM4-80GB", "A100-SXM4-40GB"), ("A10G", "A10"), ("L40S", "L4"), (None, "T4")]
    assert [pair for pair in others if is_gpu(*pair)] == []
    assert all(is_gpu("A100-SXM4-80GB", text) for text in ("A100", "a100-sxm4-80gb"))


def ranges(least, most):
    """Ranges with neither, one or both ends."""
    ends = st.none() | st.floats(least, most)
    pairs = st.tuples(ends, ends)
    return pairs.map(lambda pair: Range(*(pair if None in pair else sorted(pair))))


GPUS = st.sampled_from(["T4", "L4", "A100", "H200", "P100", "Radeon Pro V520"])
NAMES = st.sampled_from(["g4dn.xlarge", "p2.xlarge", "ecs.gn5-c4g1.xlarge"])
queries = st.builds(
    OfferQuery,
    cloud=st.sampled_from(["any", "aws", "alibaba"]),
    region=st.sampled_from(["us-east-1", "eu-central-1"]),
    market=st.sampled_from([None, *Market]),
    gpus=st.lists(GPUS, max_size=2).map(tuple),
    min_gpu_memory_mib=st.none() | st.floats(1, 200000),
    accelerated=st.sampled_from([None, True, False]),
    max_usd_per_hour=st.none() | st.floats(0.01, 100),
    instances=st.lists(NAMES, max_size=2).map(tuple),
    max_gpu_memory_mib=st.none() | st.floats(1000, 200000),
    compute_capability=ranges(3, 13),
    vcpus=ranges(1, 100),
    memory_mib=ranges(1000, 500000),
)
CATALOG = load_catalog(DATA_FOLDER)
EVERYTHING = [
    offer for region in ("us-east-1", "eu-central-1") for offer in CATALOG.offers(OfferQuery(region=region))
]


@given(queries)
def test_the_catalogue_offers_exactly_what_matches(query):
    known = [CATALOG.instance(name).cloud for name in query.instances]
    if query.cloud != "any" and any(cloud != query.cloud for cloud in known):
        with pytest.raises(UsageError):
            CATALOG.offers(query)
        return
    result = CATALOG.offers(query)
    assert result == [offer for offer in EVERYTHING if is_asked(offer, query)]
    cheapest, count = CATALOG.cheapest(query, 7)
    assert count == len(result)
    assert cheapest == sorted(result, key=by_price)[:7]


def is_asked(offer, query):
    """The predicate with the capability of the data sheet."""
    return matches(offer, query, CATALOG.capability_of(offer.instance.gpu_name))


def by_price(offer):
    """A key that sorts offers as the catalogue does, cheapest first."""
    instance = offer.instance
    return offer.price.usd_per_hour, instance.cloud, offer.region, instance.name, offer.market


@given(queries)
def test_the_cheapest_region_of_each_type_is_found(query):
    query = replace(query, region=None, cloud="alibaba", instances=())
    best = {}
    for offer in sorted(CATALOG.offers(query), key=by_price):
        best.setdefault((offer.instance.name, offer.market), offer)
    result = {}
    for offer in CATALOG.best_places(query):
        result.setdefault((offer.instance.name, offer.market), offer)
    assert result == best


TABLES = table("support")
REASONS = ("unsupported", "not_offered", "facts_missing")
NOT_KNOWN = {"gpu_fraction": 0.125, "burstable": True, "ebs_baseline_mib_per_second": None}


def require(got, outcome):
    """A verdict is the rejection for that reason, or has that word in its notes."""
    if outcome in REASONS:
        assert isinstance(got, Rejection)
        assert got.reason == outcome
    else:
        assert isinstance(got, Supported)
        assert outcome in " ".join(map(str, got.notes))


@pytest.mark.parametrize(("capability", "architecture", "outcome"), TABLES["capability"])
def test_compute_capability_decides(capability, architecture, outcome):
    """Builds exist from 5.0 on x86-64 (old ones below 7.5) and from 8.0 on arm64."""
    got = check(make_instance(architecture=architecture), make_gpu(capability), needs_gpu=True)
    require(got, outcome)
    assert isinstance(got, Rejection) or bool(outcome) == bool(got.notes)


@pytest.mark.parametrize(
    ("reason", "changes"),
    [
        ("unsupported", {"gpu_vendor": "AMD", "gpu_name": "Radeon Pro V520"}),
        ("unsupported", {"architecture": "arm64_mac"}),
        *[("facts_missing", {field: value}) for field, value in NOT_KNOWN.items()],
    ],
)
def test_rejections_name_their_reason(reason, changes):
    got = check(make_instance(**changes), make_gpu(), needs_gpu=True)
    require(got, reason)
    assert got.detail


def test_cpu_types_run_preprocessing_and_nothing_that_needs_a_gpu():
    for kind in (make_instance(gpu_vendor="AMD"), make_cpu_instance()):
        assert check(kind, None, needs_gpu=False) == Supported()
    assert check(make_cpu_instance(), None, needs_gpu=True) == Rejection("unsupported", Message("has no GPU"))
    accelerated = make_cpu_instance(accelerator="AWS Trainium")
    assert "AWS Trainium" in str(check(accelerated, None, needs_gpu=True).detail)


@pytest.mark.parametrize(("name", "outcome"), TABLES["types"])
def test_real_types_run_or_are_rejected_by_name(catalog, name, outcome):
    """The catalogue's own traps; Turing and newer as they are, Volta with an older CUDA build."""
    instance = catalog.instance(name)
    closed = catalog.restriction(instance, None)
    require(check(instance, catalog.gpu_of(instance), needs_gpu=True, closed=closed), outcome)


OFFER = replace(candidate().spec.offer, instance=instance("g5.12xlarge", vcpus=48))


def test_each_family_has_its_quota_and_only_what_it_holds_may_be_started() -> None:
    def check(name: str, market: str, code: str | None) -> None:
        assert quota_code(name, Market(market)) == code

    assert_each(check, TABLES["quotas"])
    text = "needs 48 vCPUs of quota L-DB2E81BA (Running On-Demand G and VT), which allows 8"
    quota = partial(parse_quota, market=Market.ON_DEMAND)
    for left, said in (("G=8", text), ("G=48", None), ("P=0,L-3819A6DF=0", None)):
        assert quota_shortfall(OFFER, quota(left)) == said
    assert [most_startable(OFFER, quota(left)) for left in ("G=95", "G=96", "P=0")] == [1, 2, math.inf]
    of_another_cloud = replace(OFFER, instance=replace(OFFER.instance, cloud="gcp"))
    assert quota_shortfall(of_another_cloud, quota("G=0")) is None


@pytest.mark.parametrize(
    ("text", "market", "pairs"),
    [
        ("G=8,P=0", Market.ON_DEMAND, {"L-DB2E81BA": 8, "L-417A185B": 0}),
        ("g and vt=8", Market.SPOT, {"L-3819A6DF": 8}),
        ("vt = 8,Standard=5", Market.ON_DEMAND, {"L-DB2E81BA": 8, "L-1216C47A": 5}),
        ("l-db2e81ba=8", Market.SPOT, {"L-DB2E81BA": 8}),
    ],
)
def test_quotas_are_told_by_family_or_code(text, market, pairs) -> None:
    assert dict(parse_quota(text, market)) == pairs
