"""An answer that takes long, is stopped, or never comes; and a sweep that is watched until it ends."""

import re

import pytest
from playwright.sync_api import expect

QUESTION = "/?task=inference&model=googlenet&target_throughput=500"


@pytest.fixture
def held(visit):
    """A page whose next answers are kept back, and the list of those that wait."""
    page = visit(QUESTION)
    waiting = []
    page.route("**part=answer**", lambda route: waiting.append(route))
    yield page, waiting
    page.unroute_all(behavior="ignoreErrors")


def test_a_slow_answer_is_told_and_comes_in_the_end(held, assert_accessible):
    page, waiting = held
    page.fill("#target_throughput", "250")
    expect(page.locator("#answer")).to_have_attribute("aria-busy", "true")
    expect(page.get_by_text("Still computing")).to_be_visible()
    expect(page.locator(".eyebrow")).to_contain_text("500 images/s")
    assert_accessible(page)
    waiting[-1].continue_()
    expect(page.locator(".eyebrow")).to_contain_text("250 images/s")
    expect(page.locator("#answer")).not_to_have_attribute("aria-busy", "true")
    expect(page.locator(".slow")).to_have_count(0)


def test_a_slow_answer_can_be_stopped(held):
    """The old answer and its address stay; the next question is asked as ever."""
    page, _ = held
    page.fill("#target_throughput", "250")
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("#answer")).not_to_have_attribute("aria-busy", "true")
    expect(page.locator(".eyebrow")).to_contain_text("500 images/s")
    assert "target_throughput=500" in page.url
    page.unroute_all()
    page.fill("#target_throughput", "300")
    expect(page.locator(".eyebrow")).to_contain_text("300 images/s")


@pytest.mark.machine
@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_sweep_is_live(visit):
    """Two trials on an emulated GPU: the page follows them without a reload, then lists them. The
    data set is made first, which takes a minute on a quiet machine."""
    page = visit("/sweeps")
    page.fill("#networks", "alexnet")
    page.fill("#iterations", "10")
    page.get_by_role("button", name="Start the sweep").click()
    expect(page).to_have_url(re.compile("/sweeps/2"))
    page.evaluate("window.stays = true")
    state = page.locator("#state-title")
    expect(state).to_have_text(re.compile("Starting|Running"))
    expect(state).to_have_text("Done", timeout=900_000)
    assert page.evaluate("window.stays")
    expect(page.locator("#answer")).to_contain_text("2 of 2 trials")
    assert float(page.locator("tbody tr td.number").nth(2).inner_text()) > 0
    page.get_by_role("link", name="Measurements").click()
    expect(page.locator("table svg.box")).to_have_count(2)
