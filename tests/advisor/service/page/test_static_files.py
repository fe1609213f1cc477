"""Scripts and styles: small, named by their content, and all that is told of them is there."""

import base64
import gzip
import hashlib
import re

import pytest

from advisor.service.page.rendering import files, static_path

# What a first visit loads, compressed: page, styles and scripts.
MOST_KIB = 40


def test_a_file_is_kept_for_a_year_under_a_name_of_its_content(client):
    response = client.get(static_path("app.js"))
    assert response.status_code == 200
    assert "immutable" in response.headers["cache-control"]
    assert response.headers["content-type"] == "text/javascript; charset=utf-8"


def test_what_is_no_file_of_the_page_is_not_there(client):
    for name in ("../routes.py", "nope.js"):
        assert client.get(f"/static/0/{name}").status_code == 404


def test_a_first_visit_is_light(client):
    page = gzip.compress(client.get("/").content, 5)
    size = len(page) + sum(len(gzip.compress(file, 9)) for file in files().values())
    assert size <= MOST_KIB * 1024


@pytest.mark.parametrize("address", ["/", "/language", "/predict", "/compare"])
def test_nothing_holds_up_the_first_paint(page, address):
    """No style sheet is another request, and scripts wait for the page."""
    result = page(address)
    assert not result.all("link", rel="stylesheet")
    assert all(element.get("type") == "module" for element in result.all("script"))


def test_the_policy_allows_the_pages_own_styles_alone(client):
    answer = client.get("/compare")
    (text,) = re.findall(r"<style>(.*?)</style>", answer.text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}';" in answer.headers["content-security-policy"]


def test_nobody_else_is_asked():
    """No address of another host stands in what browsers run."""
    for name, content in files().items():
        hosts = set(re.findall(rb"https?://([\w.]+)", content)) - {b"www.w3.org", b"github.com"}
        assert not hosts, name
