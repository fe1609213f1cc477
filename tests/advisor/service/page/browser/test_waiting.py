"""An answer that takes long, is stopped, or never comes."""

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


def test_a_slow_answer_that_fails_says_so(held):
    page, waiting = held
    page.fill("#target_throughput", "250")
    expect(page.get_by_text("Still computing")).to_be_visible()
    waiting[-1].abort()
    expect(page.get_by_role("alert")).to_contain_text("does not answer")
    expect(page.locator("#answer")).not_to_have_attribute("aria-busy", "true")
