"""A real sweep, started on the page and watched there until it ends."""

import re

import pytest
from playwright.sync_api import expect


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
