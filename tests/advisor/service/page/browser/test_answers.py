"""Answers in a real browser: live while one asks, slow or never coming, found, pointed at and watched."""

import re

import pytest
from playwright.sync_api import expect

QUESTION = "/?task=inference&model=googlenet&target_throughput=500"


@pytest.mark.smoke
def test_an_answer_follows_what_is_typed(visit):
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


def test_a_network_is_found_and_chosen_by_keyboard(visit):
    page = visit("/?task=inference&model=googlenet&target_throughput=500")
    field = page.get_by_role("combobox", name="What do you want to run?")
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
    page = visit("/?task=generation&model=Qwen/Qwen3-8B", color_scheme=scheme)
    field = page.get_by_role("combobox", name="What do you want to run?")
    field.fill("qwen")
    expect(page.get_by_role("listbox").get_by_role("option").first).to_be_visible()
    field.press("ArrowDown")
    assert_accessible(page)


GENERATION = "/?task=generation&model=meta-llama/Llama-3.1-8B&users=8"
PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}


def test_a_point_says_its_spec_and_leads_to_it(visit):
    page = visit(QUESTION)
    picture = page.locator(".picture:visible").first
    point = picture.locator(".marks a").first
    text = point.get_attribute("aria-label")
    point.hover()
    expect(picture.locator(".tip")).to_have_text(text)
    point.click()
    expect(page).to_have_url(re.compile(r"/predict\?.*instance="))
    expect(page.locator(".now-name")).to_contain_text(text.split(" at ")[0].split(" x ")[-1])


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
    page = visit(QUESTION, **PHONE)
    picture = page.locator(".picture:visible").first
    assert "narrow-only" in picture.get_attribute("class")
    assert picture.locator("text").first.evaluate("one => one.getBoundingClientRect().height") >= 9
    assert picture.locator("circle").first.bounding_box()["width"] >= 24


def test_the_task_decides_which_fields_are_sent(visit):
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
    page.get_by_text("Compare side by side").click()
    expect(page.locator(".specs thead th")).to_have_count(3)
    assert page.locator(".specs .best").count() >= 2
    page.fill("#spec", "g5.xlarge gp3:500GiB, g5.xlarge io2:500GiB:9000iops")
    expect(page.locator(".specs thead th")).to_have_count(2)
    expect(page.locator(".specs")).to_contain_text("io2")


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
    expect(page.locator(".slow")).to_contain_text("Still computing")
    expect(page.locator(".eyebrow")).to_contain_text("500 images/s")
    assert_accessible(page)
    waiting[-1].continue_()
    expect(page.locator(".eyebrow")).to_contain_text("250 images/s")
    expect(page.locator("#answer")).not_to_have_attribute("aria-busy", "true")
    expect(page.locator(".slow")).to_have_count(0)


def test_a_slow_answer_can_be_stopped(held):
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
