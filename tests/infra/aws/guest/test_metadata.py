"""The metadata client against a service that wants version 2."""

from datetime import UTC, datetime

import pytest

from advisor.errors import LiveError
from advisor.infra.aws.guest.metadata import ADDRESS_VARIABLE, Metadata
from tests.infra.aws.guest.imds import Service, serving


def test_it_takes_one_token_for_many_questions(service):
    metadata = Metadata(service.address)
    assert metadata.instance_id() == "i-0123456789abcdef0"
    assert metadata.region() == "us-east-1"
    assert service.tokens == 1


def test_it_takes_another_token_when_one_is_over():
    with serving(Service(uses=1)) as service:
        metadata = Metadata(service.address)
        assert [metadata.region() for _ in range(3)] == ["us-east-1"] * 3
        assert service.tokens == 3


def test_no_notice_is_none_and_a_notice_says_when(service):
    metadata = Metadata(service.address)
    assert metadata.spot_notice() is None
    service.take_back()
    notice = metadata.spot_notice()
    assert notice.action == "terminate"
    assert notice.at == datetime(2026, 11, 21, 12, 2, tzinfo=UTC)


@pytest.mark.parametrize("text", ["", "soon", "[]", '{"action": "stop"}', '{"time": 3}'])
def test_a_notice_that_cannot_be_read_is_one(service, text):
    service.take_back(text)
    assert Metadata(service.address).spot_notice().at is None


def test_a_moment_of_trouble_is_passed_over(service):
    service.broken = 2
    assert Metadata(service.address).region() == "us-east-1"


def test_where_there_is_no_such_service_the_line_says_so(monkeypatch):
    with serving() as service:
        gone = service.address
    monkeypatch.setenv(ADDRESS_VARIABLE, gone)
    with pytest.raises(LiveError, match="is this EC2"):
        Metadata().region()


def test_a_proxy_is_never_asked(service, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert Metadata(service.address).region() == "us-east-1"
