"""The page for everybody: by keyboard, on a phone, in the dark, in Chinese, without a script, with keys."""

import re

import pytest
from playwright.sync_api import expect

from benchmarks.served import Served

QUESTION = "/?task=inference&model=googlenet&target_throughput=500"
PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}
SPECS = "/compare?task=inference&model=googlenet&spec=g5.xlarge gp3:500GiB,g6.xlarge local"
GENERATION = "/?task=generation&model=meta-llama/Llama-3.1-8B&users=8&max_ttft_ms=2000"
TUNING = "/?task=finetuning&model=meta-llama/Llama-3.1-8B&tokens=1e8"
BESIDE = "/compare?model=meta-llama/Llama-3.1-8B&users=8&instance=g6.xlarge,g5.xlarge"
PREDICTED = "/predict?task=training&model=resnet50&instance=g5.xlarge&vcpus=8"
PAGES = (
    *(QUESTION, PREDICTED, SPECS, GENERATION, TUNING, BESIDE),
    *("/compare", "/measurements", "/sweeps", "/login", "/catalog", "/catalog/gpus", "/catalog/g5.xlarge"),
)
REFUSED = "/?task=inference&model=googlenet&target_throughput=abc"
NONE = "/?task=inference&model=googlenet&target_throughput=90000&gpu=T4"
NONE_SERVES = "/?task=generation&model=meta-llama/Llama-3.1-8B&users=8&max_price=0.1"


def test_by_keyboard_alone(visit):
    page = visit(QUESTION)
    page.keyboard.press("Tab")
    expect(page.get_by_text("Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("#main$"))
    page.keyboard.press("Tab")
    expect(page.locator("#model")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".eyebrow")).to_contain_text("Training")
    picture = page.locator(".picture.wide-only").first
    points = picture.locator(".marks a")
    points.first.focus()
    page.keyboard.press("ArrowRight")
    expect(points.nth(1)).to_be_focused()
    text = points.nth(1).get_attribute("aria-label")
    expect(picture.locator(".tip")).to_have_text(text)
    assert re.search(r"\$[0-9.]+/h: lower bound", text)
    page.keyboard.press("Tab")
    assert not page.evaluate("document.activeElement.closest('.marks')")


TRAINING = "/?task=training&model=resnet50&target_throughput=500"


@pytest.mark.parametrize("width", [360, 768, 1280])
@pytest.mark.parametrize("address", [*PAGES, REFUSED, NONE, NONE_SERVES, TRAINING])
def test_nothing_is_wider_than_its_window(visit, address, width):
    page = visit(address, viewport={"width": width, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("address", [QUESTION, GENERATION, TRAINING])
def test_an_answer_is_in_sight(visit, address):
    page = visit(address, **PHONE)
    for told in (".pick-name", ".price strong"):
        box = page.locator(told).bounding_box()
        assert box["y"] + box["height"] <= 740
    page = visit(address, viewport={"width": 1280, "height": 900})
    assert page.evaluate("document.documentElement.scrollHeight") <= 2500


def test_the_dark_is_kept(visit):
    """Once switched, the server renders it so: no flash of light."""
    page = visit(QUESTION)
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.get_by_role("button", name="Dark theme").click()
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert dark != light
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    expect(page.get_by_role("button", name="Light theme")).to_be_visible()


def test_without_a_script_the_form_is_sent(visit):
    page = visit(QUESTION, java_script_enabled=False)
    page.fill("#target_throughput", "100")
    page.get_by_role("button", name="Find the cheapest").click()
    expect(page.locator(".eyebrow")).to_contain_text("100 images/s")
    page.goto(page.url.split("/?")[0] + "/predict")
    page.select_option("#what-vcpus", "1")
    page.get_by_role("button", name="Predict").click()
    expect(page.locator(".changed-tag")).to_be_visible()


@pytest.mark.parametrize("address", [*PAGES, REFUSED, NONE, NONE_SERVES])
@pytest.mark.parametrize("locale", ["en-GB", "zh-CN"])
def test_axe_finds_nothing(visit, assert_accessible, address, locale):
    """WCAG A and AA, and best practices: in light, in the dark, and on a phone."""
    page = visit(address, locale=locale)
    assert_accessible(page)
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size({"width": 360, "height": 740})
    # Colours fade into each other: between the two themes no contrast holds.
    page.evaluate("Promise.all(document.getAnimations().map(fading => fading.finished))")
    assert_accessible(page)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    served = Served(folder=tmp_path_factory.mktemp("guarded"))
    served.key = new_key(served, "reader")
    with served:
        yield served


def new_key(served, name):
    return served.advisor("keys", "add", name, "--scope", "read").strip()


def _signed_in(visit, guarded, key, address=QUESTION):
    page = visit(address, guarded)
    expect(page).to_have_url(re.compile("/login"))
    page.get_by_label("Key").fill(key)
    page.get_by_role("button", name="Sign in").click()
    return page


def test_signing_in_leads_to_the_question(visit, guarded):
    page = _signed_in(visit, guarded, guarded.key)
    expect(page.locator(".pick-name")).to_have_text("g4dn.2xlarge")
    page.get_by_role("button", name="Sign out").click()
    expect(page).to_have_url(re.compile("/login"))


def test_a_revoked_key_is_told_in_place(visit, guarded):
    page = _signed_in(visit, guarded, new_key(guarded, "soon-gone"))
    expect(page.locator(".pick-name")).to_be_visible()
    guarded.advisor("keys", "revoke", "soon-gone")
    page.wait_for_timeout(1500)
    page.fill("#target_throughput", "250")
    expect(page.get_by_role("alert")).to_contain_text("not accepted any more")
    assert page.input_value("#target_throughput") == "250"
    expect(page.locator("#answer").get_by_role("link", name="Sign in")).to_be_visible()


def test_a_reader_is_told_that_it_may_not_measure(visit, guarded):
    page = _signed_in(visit, guarded, guarded.key, "/sweeps")
    page.get_by_role("button", name="Start the sweep").click()
    expect(page.get_by_role("alert")).to_contain_text("needs scope 'measure'")
    assert page.input_value("#networks") == "googlenet"
