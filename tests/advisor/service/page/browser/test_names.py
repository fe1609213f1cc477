"""Fields that find names while one types: by keyboard, by mouse, and without a script."""

import re

import pytest
from playwright.sync_api import expect


def test_a_network_is_found_and_chosen_by_keyboard(visit):
    """What is typed is a search: no answer is asked for until a name is chosen."""
    page = visit("/?task=inference&model=googlenet&target_throughput=500")
    field = page.get_by_role("combobox", name="Network")
    field.fill("resnet 101")
    options = page.get_by_role("listbox").get_by_role("option")
    expect(options.first).to_have_text("resnet101")
    expect(page.locator("#said")).to_contain_text("arrow keys choose")
    expect(page.locator(".eyebrow")).to_contain_text("googlenet")
    field.press("ArrowDown")
    expect(field).to_have_attribute("aria-activedescendant", options.first.get_attribute("id"))
    expect(options.first).to_have_attribute("aria-selected", "true")
    field.press("Enter")
    expect(field).to_have_value("resnet101")
    expect(field).to_have_attribute("aria-expanded", "false")
    expect(page.locator(".eyebrow")).to_contain_text("resnet101")
    expect(page).to_have_url(re.compile("model=resnet101"))


def test_escape_closes_and_arrows_go_around(visit):
    page = visit("/predict")
    field = page.get_by_role("combobox", name="Instance")
    field.fill("g5.4")
    expect(page.get_by_role("listbox").get_by_role("option").first).to_have_text("g5.4xlarge")
    field.press("ArrowUp")
    expect(page.get_by_role("listbox").get_by_role("option").last).to_have_attribute("aria-selected", "true")
    field.press("ArrowDown")
    assert field.get_attribute("aria-activedescendant") is None
    field.press("Escape")
    expect(page.get_by_role("listbox")).to_have_count(0)
    expect(field).to_have_value("g5.4")


def test_of_several_names_the_last_one_is_found(visit):
    page = visit("/compare?task=training&model=resnet50&instance=g4dn.xlarge,g5.xlarge")
    page.get_by_role("combobox", name="Instance").fill("g4dn.xlarge,g6.4")
    page.get_by_role("listbox").get_by_role("option", name="g6.4xlarge", exact=True).click()
    expect(page.locator("#instance")).to_have_value("g4dn.xlarge,g6.4xlarge")
    expect(page.locator(".beside li")).to_have_count(2)
    expect(page.locator(".beside")).to_contain_text("g6.4xlarge")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_an_open_list_passes_axe(visit, assert_accessible, scheme):
    page = visit("/language", color_scheme=scheme)
    field = page.get_by_role("combobox", name="Network")
    field.fill("qwen")
    expect(page.get_by_role("listbox").get_by_role("option").first).to_be_visible()
    field.press("ArrowDown")
    assert_accessible(page)
