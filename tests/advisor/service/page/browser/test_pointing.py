"""Pictures that can be pointed at: by mouse, by a tap, and without a script."""

import re

from playwright.sync_api import expect

QUESTION = "/?task=inference&model=googlenet&target_throughput=500"
GENERATION = "/language?task=generation&model=meta-llama/Llama-3.1-8B&users=8"
PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}


def test_a_point_says_its_spec_and_leads_to_it(visit):
    page = visit(QUESTION)
    picture = page.locator(".picture:visible").first
    point = picture.locator(".marks a").nth(2)
    told = point.get_attribute("aria-label")
    point.hover()
    expect(picture.locator(".tip")).to_have_text(told)
    point.click()
    expect(page).to_have_url(re.compile(r"/predict\?.*instance="))
    expect(page.locator(".now-name")).to_contain_text(told.split(" at ")[0].split(" x ")[-1])


def test_a_point_of_latency_asks_with_as_many_users(visit):
    page = visit(GENERATION)
    points = page.locator(".picture:visible").first.locator(".marks a")
    assert points.count() > 3
    last = points.last
    users = re.search(r"([0-9,.]+) in flight", last.get_attribute("aria-label"))[1]
    last.click()
    expect(page.locator("#users")).to_have_value(users.replace(",", ""))
    expect(page.locator(".pick-name")).to_be_visible()


def test_a_phone_has_a_picture_of_its_own(visit):
    """Its letters are as large as on a desk, and a finger hits a point."""
    page = visit(QUESTION, **PHONE)
    picture = page.locator(".picture:visible").first
    assert "narrow-only" in picture.get_attribute("class")
    assert picture.locator("text").first.evaluate("one => one.getBoundingClientRect().height") >= 9
    assert picture.locator("circle").first.bounding_box()["width"] >= 24


def test_the_task_decides_which_fields_are_sent(visit):
    """Users are of serving, the tokens of the run of fine-tuning."""
    page = visit(GENERATION)
    expect(page.locator("#tokens")).to_be_hidden()
    page.get_by_label("Fine-tuning").check()
    expect(page.locator("#users")).to_be_hidden()
    page.fill("#tokens", "1e8")
    expect(page.locator(".eyebrow")).to_contain_text("Fine-tuning")
    expect(page).to_have_url(re.compile("tokens=1e8"))
    assert "users" not in page.url


def test_specs_of_an_answer_stand_side_by_side(visit):
    page = visit(QUESTION)
    page.get_by_text("Compare the first of them").click()
    expect(page.locator(".specs thead th")).to_have_count(3)
    assert page.locator(".specs .best").count() >= 2
    page.fill("#spec", "g5.xlarge gp3:500GiB, g5.xlarge io2:500GiB:9000iops")
    expect(page.locator(".specs thead th")).to_have_count(2)
    expect(page.locator(".specs")).to_contain_text("io2")
