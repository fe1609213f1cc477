"""The page of a service with keys: sign in, go on, and what a revoked key is told."""

import re

import pytest
from playwright.sync_api import expect

from benchmarks.served import Served

QUESTION = "/?task=inference&model=googlenet&target_throughput=500"


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
