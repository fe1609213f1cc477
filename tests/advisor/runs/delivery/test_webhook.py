"""A webhook, against a real server on loopback."""

import base64
import hashlib
import hmac
import json
import socket

import pytest

from advisor.errors import DeliveryError
from advisor.messages import Message as Sentence
from advisor.runs.delivery.letter import Attachment, TransientDeliveryError, report_message
from advisor.runs.delivery.targets import deliver, parse_target
from advisor.runs.delivery.webhook import WebhookTarget
from tests.advisor.render.schemas import assert_keeps
from tests.advisor.render.sizing.reports import golden_report
from tests.advisor.runs.delivery.servers import certificate, hook, parcel


def test_the_json_arrives_whole_and_signed(monkeypatch):
    """As Standard Webhooks verifies it: HMAC-SHA256 of id, time and body under the secret."""
    secret = b"0123456789abcdef"
    monkeypatch.setenv("ADVISOR_WEBHOOK_SECRET", "whsec_" + base64.b64encode(secret).decode())
    with hook() as server:
        parse_target(server.url).send(parcel(title="表格 =1+1 📈"))
    ((path, headers, body),) = server.got
    message = json.loads(body)
    assert path == "/services/T0/secret-path?key=hidden"
    assert_keeps(message, "delivery")
    assert (message["title"], message["kind"]) == ("表格 =1+1 📈", "report")
    assert message["document"] == {"schema": "advisor.report/1"}
    assert headers["content-type"] == "application/json"
    assert message["id"] == headers["webhook-id"]
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    expected = base64.b64encode(hmac.new(secret, signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{expected}"


def test_an_outage_is_waited_out():
    """A server that is busy twice gets the same id three times; Retry-After is heeded."""
    waits = []
    with hook([(503, {"Retry-After": "7"}, b""), (429, {}, b"slow down")]) as server:
        result = deliver(parcel(), parse_target(server.url), sleep=waits.append)
    assert (result.arrived, result.attempts) == (True, 3)
    assert len({headers["webhook-id"] for _, headers, _ in server.got}) == 1
    assert waits[0] == 7.0
    assert 2.0 <= waits[1] <= 2.5


def test_a_redirect_is_not_followed():
    with (
        hook([(307, {"Location": "/elsewhere"}, b""), (302, {"Location": "/x"}, b"")]) as server,
        pytest.raises(DeliveryError, match="redirects are not followed"),
    ):
        parse_target(server.url).send(parcel())
    assert len(server.got) == 1


def test_nothing_secret_is_in_what_is_said(monkeypatch):
    monkeypatch.setenv("ADVISOR_WEBHOOK_SECRET", "swordfish")
    said = []
    with hook([(500, {}, b"")] * 2 + [(403, {}, b"no")]) as server:
        result = deliver(parcel(), parse_target(server.url), sleep=lambda _s: None, say=said.append)
    words = " ".join([*said, result.error, result.label, repr(parse_target(server.url))])
    assert len(said) == 2
    for secret in ("secret-path", "hidden", "swordfish"):
        assert secret not in words


def test_a_server_that_never_answers_is_left_in_time():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        target = WebhookTarget(f"http://127.0.0.1:{port}/", timeout_seconds=0.2)
        with pytest.raises(TransientDeliveryError, match=r"cannot be reached.*timed out"):
            target.send(parcel())


def test_a_port_without_a_server_is_told():
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    with pytest.raises(TransientDeliveryError, match=r"cannot be reached.*Connection refused"):
        parse_target(f"http://127.0.0.1:{port}/").send(parcel())


def test_a_server_must_prove_who_it_is(tmp_path, monkeypatch):
    """Https with a certificate that nobody vouches for is refused, and taken once it is trusted."""
    path = certificate(tmp_path)
    with hook(certificate_path=path) as server:
        with pytest.raises(DeliveryError, match="certificate verify failed"):
            parse_target(server.url).send(parcel())
        monkeypatch.setenv("SSL_CERT_FILE", str(path))
        parse_target(server.url).send(parcel())
    assert len(server.got) == 1


def test_a_report_that_was_just_made_is_sent_with_its_sentences_as_texts():
    """One that was saved has texts already; a new one still has messages."""
    document = golden_report()
    document["workloads"][0]["recommendation"]["warnings"] = [Sentence("{age} days old", age=3)]
    sent = report_message(document, Attachment("report.md", "text/markdown", b"x"))
    assert sent.id.startswith("advisor-")
    answer = json.loads(json.dumps(sent.body(sent.id)))["document"]
    assert answer["workloads"][0]["recommendation"]["warnings"] == ["3 days old"]
