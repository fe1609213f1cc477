"""GPU names as people and clouds write them, what an hour of each costs, and how they reach each other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from advisor.catalog import load_catalog
from advisor.catalog.gpus import UNKNOWN, cheapest_by_gpu, gpu_link, sheet_name, sheet_names, usd_per_gpu_hour
from advisor.domain.gpu_names import gpus_named
from advisor.domain.money import NotOrderable
from advisor.errors import UsageError
from tests.advisor.catalog.builders import make_cpu_instance, make_instance, make_offer
from tests.rows import assert_each, table

KNOWN = tuple(load_catalog().gpu_sheets)
NAMES = table("gpu_names")


def test_names_of_drivers_people_and_public_tables_mean_one_sheet() -> None:
    def check(name: str, sheet: str) -> None:
        assert sheet_names(name, KNOWN)[0] == sheet

    assert_each(check, [*NAMES["drivers"].items(), *NAMES["people"].items()])
    assert_each(check, [(name, sheet) for sheet, names in NAMES["public"].items() for name in names])
    assert_each(check, NAMES["without_a_blank"].items())


# Letters of another case, or other signs for a blank and a hyphen.
SIGNS = [("-", "-"), (" ", " "), ("_", "_"), ("", ""), ("", "-")]
SPELLINGS = (
    *(str.upper, str.lower, str.title),
    *(lambda name, signs=signs: name.translate(dict(zip(b" -", signs, strict=True))) for signs in SIGNS),
)


@given(
    st.sampled_from(KNOWN),
    st.lists(st.sampled_from(SPELLINGS), max_size=3),
    st.sampled_from(["{}", "NVIDIA {}", "{} GPU", "nvidia-{}", "NVIDIA{}", "{}?"]),
)
def test_every_sheet_is_found_however_its_name_is_run_together(name, spellings, around) -> None:
    text = around.format(name)
    for spell in spellings:
        text = spell(text)
    assert sheet_names(text, KNOWN) == [name]


@pytest.mark.parametrize(("text", "sheets"), table("gpu_names")["pro_cards"])
def test_a_bare_name_of_a_pro_card_means_every_form_of_it(text, sheets) -> None:
    """As A100 does; who says workstation or server means that. A variant's name is of no other card."""
    assert sheet_names(text, KNOWN) == [f"RTX PRO 6000 Blackwell{form}" for form in sheets]


def test_a_card_of_several_kinds_is_each_of_them_and_a_slice_of_one_is_refused() -> None:
    cards = [f"A100-{form}-{size}GB" for form in ("SXM4", "PCIE") for size in (40, 80)]
    assert (sheet_names("A100", KNOWN), sheet_names("A100 PCIe", KNOWN)) == (cards, cards[2:])
    assert sheet_name("A100 80GB", KNOWN) == sheet_names("A100 80GB", KNOWN)[0]
    assert sheet_name("h200", KNOWN) == "H200-SXM-141GB"
    with pytest.raises(UsageError, match="A100-PCIE-40GB, A100-PCIE-80GB"):
        sheet_name("A100", KNOWN)
    sheets = load_catalog().gpus
    with pytest.raises(UsageError, match="is a slice"):
        load_catalog().require_gpu("NVIDIA A10-4Q", "aws")
    assert sheet_names("GRID T4-16Q", sheets) == ["T4"]
    assert sheet_names("NVIDIA A10-24Q", sheets) == ["A10"]


def test_what_is_no_whole_card_of_the_table_means_none() -> None:
    def check(text: str) -> None:
        assert gpus_named(text, KNOWN) == []

    assert_each(check, NAMES["others"])


RETIRED = NotOrderable(cloud="aws", status="retired")


def test_an_hour_of_a_gpu_is_a_share_of_whole_gpus_that_can_be_rented():
    item = make_offer(make_instance(name="g9.one"), 1.0)
    eight = make_offer(make_instance(name="g9.eight", gpu_count=8), 6.4)
    assert cheapest_by_gpu([item, eight])["T4"] is eight
    offers = [
        make_offer(make_instance(gpu_fraction=0.125), 0.1),
        replace(make_offer(make_instance(), 0.2), closed=RETIRED),
        make_offer(make_cpu_instance(), 0.01),
    ]
    assert cheapest_by_gpu(offers) == {}


@given(st.permutations(range(5)), st.lists(st.floats(0.01, 99), min_size=5, max_size=5))
def test_the_order_of_offers_does_not_matter(order: list[int], prices: list[float]) -> None:
    offers = [make_offer(make_instance(name=f"g{i}.x"), usd) for i, usd in enumerate(prices)]
    best = cheapest_by_gpu([offers[i] for i in order])["T4"]
    assert usd_per_gpu_hour(best) == min(map(usd_per_gpu_hour, offers))
    assert best == cheapest_by_gpu(offers)["T4"]


@pytest.mark.parametrize(("name", "gpus", "link"), table("gpu_names")["links"])
def test_known_types(name: str, gpus: int, link: str) -> None:
    assert gpu_link(load_catalog().instance(name)).among(gpus) == link


def test_every_type_with_several_nvidia_gpus_is_in_the_table_and_an_unknown_one_counts_as_pcie() -> None:
    catalog = load_catalog()
    for cloud in ("aws", "gcp", "azure", "alibaba"):
        for instance in catalog.instances(cloud):
            several = instance.gpu_vendor == "NVIDIA" and instance.gpu_count > 1 and instance.current
            assert not (several and catalog.gpu_of(instance)) or gpu_link(instance).source, instance.name
    # The slower link, so that nothing is promised.
    assert gpu_link(replace(load_catalog().instance("p5.48xlarge"), name="x9.48xlarge")) == UNKNOWN
