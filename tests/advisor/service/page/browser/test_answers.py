"""Answers in a real browser: live while one asks, and under an address each."""

import re

import pytest
from playwright.sync_api import expect

QUESTION = "/?task=inference&model=googlenet&target_throughput=500"


@pytest.mark.smoke
def test_an_answer_follows_what_is_typed(visit):
    """No button, no reload; the address is that of the question, and Back returns."""
    page = visit(QUESTION)
    page.evaluate("window.stays = true")
    page.fill("#target_throughput", "100")
    expect(page.locator(".eyebrow")).to_contain_text("100 images/s")
    assert page.evaluate("window.stays")
    expect(page).to_have_url(re.compile("target_throughput=100"))
    page.fill("#model", "resnet50")
    page.press("#model", "Enter")
    expect(page.locator(".eyebrow")).to_contain_text("resnet50")
    assert "At" not in page.locator("#said").inner_text()
    page.go_back()
    expect(page.locator("#model")).to_have_value("googlenet")


def test_the_slider_moves_the_target(visit):
    page = visit(QUESTION)
    slider = page.get_by_label("Target, as a slider")
    before = page.input_value("#target_throughput")
    slider.focus()
    for _ in range(40):
        page.keyboard.press("ArrowRight")
    assert float(page.input_value("#target_throughput")) > float(before)
    expect(page).to_have_url(re.compile(f"target_throughput={page.input_value('#target_throughput')}"))


def test_a_bad_target_is_told_in_place(visit):
    """The input stays, the alert names the way out, and mending it brings the answer back."""
    page = visit(QUESTION)
    page.fill("#target_throughput", "abc")
    expect(page.get_by_role("alert")).to_contain_text("must be a number above 0")
    expect(page.locator("#target_throughput")).to_have_attribute("aria-invalid", "true")
    assert page.input_value("#target_throughput") == "abc"
    page.fill("#target_throughput", "300")
    expect(page.locator(".eyebrow")).to_contain_text("300 images/s")
    expect(page.locator("#target_throughput")).not_to_have_attribute("aria-invalid", "true")


def test_a_server_that_is_away_is_told_and_asked_again(visit):
    page = visit(QUESTION)
    page.route("**part=answer**", lambda route: route.abort())
    page.fill("#target_throughput", "250")
    expect(page.get_by_role("alert")).to_contain_text("does not answer")
    assert page.input_value("#target_throughput") == "250"
    page.unroute("**part=answer**")
    page.get_by_role("button", name="Try again").click()
    expect(page.locator(".eyebrow")).to_contain_text("250 images/s")


def test_what_if_redraws_at_once(visit):
    """More vCPUs lift what decoding bound; the curve's point moves with them."""
    page = visit(QUESTION)
    box = page.locator(".what-if")
    before = box.locator(".likely strong").inner_text()
    slider = box.get_by_role("slider", name="vCPUs")
    slider.focus()
    page.keyboard.press("ArrowRight")
    expect(box.locator(".changed-tag")).to_be_visible()
    expect(box.locator(".likely strong")).not_to_have_text(before)
    expect(box.locator(".delta")).to_contain_text("+")
    assert "vcpus" not in page.url.replace("vcpus=&", "")
    expect(slider).to_be_focused()


def test_what_if_has_an_address(visit):
    page = visit("/predict?task=training&model=resnet50&instance=g5.xlarge")
    page.get_by_role("slider", name="vCPUs").focus()
    page.keyboard.press("Home")
    expect(page).to_have_url(re.compile("vcpus=1"))
    expect(page.locator(".changed-tag")).to_be_visible()
    expect(page.locator(".curves tr.chosen th").first).to_have_text("1")


def test_compare_follows_what_is_named(visit):
    page = visit("/compare?task=training&model=resnet50&instance=g4dn.xlarge,g5.xlarge")
    expect(page.locator(".beside li")).to_have_count(2)
    page.fill("#instance", "g4dn.xlarge,g5.xlarge,g6.xlarge")
    expect(page.locator(".beside li")).to_have_count(3)
    page.fill("#instance", "")
    page.fill("#gpu", "T4,L4")
    expect(page.locator(".beside li")).to_have_count(2)
    expect(page.locator(".beside")).to_contain_text("L4")
