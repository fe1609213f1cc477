"""The page as HTML, read by the standard library's parser."""

from html.parser import HTMLParser

import pytest
from fastapi.testclient import TestClient

from advisor.service.app import create_app
from advisor.service.page import question
from advisor.service.settings import Settings

# They never close, or need not.
_VOID = {"meta", "link", "input", "br", "wbr", "img", "hr", "source", "option", "p", "li", "dt", "dd"}


class Page(HTMLParser):
    """Texts, attributes by tag, and what is opened and never closed."""

    def __init__(self, html):
        super().__init__()
        self.html, self.tags, self.texts, self.open = html, [], [], []
        self.feed(html)
        self.text = " ".join(" ".join(self.texts).split())

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if tag not in _VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] != ["style"]:
            self.texts.append(data)

    def all(self, tag, **attributes):
        """The attributes of every such tag that has these."""
        wanted = attributes.items()
        return [element for name, element in self.tags if name == tag and wanted <= element.items()]


@pytest.fixture(scope="module")
def client(context):
    with TestClient(create_app(Settings(), context), base_url="http://127.0.0.1") as test_client:
        yield test_client


@pytest.fixture(autouse=True)
def _patience(monkeypatch):
    """A page that takes long is sent in parts, and its status tells nothing."""
    monkeypatch.setattr(question, "_AT_ONCE_SECONDS", 60.0)


@pytest.fixture
def page(client):
    """A page by its address; its status is asserted."""

    def get(address, status=200, **headers):
        client.cookies.clear()
        response = client.get(address, headers=headers)
        assert response.status_code == status, response.text[:500]
        return Page(response.text)

    return get
