"""Mail, against a real SMTP server on loopback."""

import email
import email.policy
import smtplib
import socket

import pytest

from advisor.errors import DeliveryError, UsageError
from advisor.runs.delivery.letter import TransientDeliveryError
from advisor.runs.delivery.mail import MailTarget, mail_target
from advisor.runs.delivery.targets import parse_target
from tests.advisor.runs.delivery.servers import PASSWORD, USER, certificate, parcel, postbox, sent

TO = "to=bob@example.com,eve+cloud@example.com&from=ann@example.com"


@pytest.fixture(autouse=True)
def _no_login(monkeypatch):
    for name in ("USER", "PASSWORD", "FROM"):
        monkeypatch.delenv(f"ADVISOR_SMTP_{name}", raising=False)


@pytest.fixture
def login(monkeypatch):
    monkeypatch.setenv("ADVISOR_SMTP_USER", USER)
    monkeypatch.setenv("ADVISOR_SMTP_PASSWORD", PASSWORD)


def target_of(box, to=TO):
    return parse_target(f"smtp://127.0.0.1:{box.port}?{to}")


def read(content):
    return email.message_from_bytes(content, policy=email.policy.default)


def test_a_mail_has_the_text_and_every_file_and_a_title_writes_no_headers():
    with postbox() as box:
        parse_target(f"smtp://127.0.0.1:{box.port}?{TO}").send(parcel())
    ((sender, to, content),) = box.got
    mail = read(content)
    assert sender == "ann@example.com"
    assert to == ["bob@example.com", "eve+cloud@example.com"]
    assert mail.get_body().get_content().splitlines() == ["g4dn.xlarge, $0.558 an hour."]
    files = {attachment.get_filename(): attachment.get_content() for attachment in mail.iter_attachments()}
    assert files["report.md"] == "# 报告 📈\n"
    assert files["report.xlsx"] == b"PK\x03\x04\xff"
    assert mail["Auto-Submitted"] == "auto-generated"
    with postbox() as box:
        target_of(box).send(parcel(title="报告\r\nBcc: mallory@example.com\x00 📈" + "x" * 400))
    mail = read(box.got[0][2])
    assert mail["Bcc"] is None
    assert mail["Subject"].startswith("报告 Bcc: mallory@example.com? 📈")
    assert len(mail["Subject"]) <= 150


def test_the_password_goes_over_tls_alone_and_a_wrong_one_is_told_without_it(tmp_path, monkeypatch, login):
    path = certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    with postbox(certificate_path=path, needs_login=True) as box:
        parse_target(f"smtp://127.0.0.1:{box.port}?to=bob@example.com").send(parcel())
    assert box.tls
    assert box.logins == [(USER.encode(), PASSWORD.encode())]
    assert box.got[0][0] == USER  # from whom: the user's name is an address

    with postbox() as plain, pytest.raises(DeliveryError, match="password is not sent"):
        parse_target(f"smtp://127.0.0.1:{plain.port}?to=bob@example.com").send(parcel())
    assert plain.logins == []
    monkeypatch.setenv("ADVISOR_SMTP_PASSWORD", "another secret")
    with postbox(certificate_path=path, needs_login=True) as box:
        target = target_of(box, "to=bob@example.com")
        result = sent(target)
    assert "does not accept ADVISOR_SMTP_USER" in result.error
    assert "secret" not in result.error


def test_a_server_whose_certificate_nobody_vouches_for_gets_nothing(tmp_path):
    with postbox(certificate_path=certificate(tmp_path)) as box:
        result = sent(target_of(box), attempts=1)
    assert "certificate verify failed" in result.error
    assert box.got == []


def test_another_machine_without_starttls_gets_nothing(monkeypatch):
    """The server is on loopback under another name: what counts is what the target says."""
    with postbox() as box:
        real = socket.create_connection
        monkeypatch.setattr(
            socket, "create_connection", lambda index, *rest, **more: real(("127.0.0.1", index[1]), *rest)
        )
        target = parse_target(f"smtp://mail.example.com:{box.port}?{TO}")
        with pytest.raises(DeliveryError, match="offers no STARTTLS"):
            target.send(parcel())
    assert box.got == []


def test_a_full_mailbox_is_tried_again_an_unknown_one_is_not_and_nobody_gets_it_twice():
    with postbox(["452 full", "452 full"]) as box:
        result = sent(target_of(box), sleep=lambda _s: None)
        assert (result.arrived, result.attempts) == (True, 2)
    with postbox(["550 no such user", "550 nor this"]) as box:
        result = sent(target_of(box))
    assert "550 no such user" in result.error
    with postbox(["250 OK", "550 no such user"]) as box:
        result = sent(target_of(box))
    assert "refused for eve+cloud@example.com" in result.error
    assert [to for _, to, _ in box.got] == [["bob@example.com"]]


def test_a_server_that_never_answers_is_left_in_time():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        target = MailTarget(
            host="127.0.0.1",
            port=silent.getsockname()[1],
            tls_at_once=False,
            to=("bob@example.com",),
            sender="ann@example.com",
            timeout_seconds=0.2,
        )
        with pytest.raises(TransientDeliveryError, match="timed out"):
            target.send(parcel())


def test_what_is_missing_is_known_before_the_work_and_smtps_is_tls_at_once(monkeypatch):
    target = mail_target("smtp://mail.example.com?to=a@b.c")
    with pytest.raises(UsageError, match="from whom"):
        target.check()
    monkeypatch.setenv("ADVISOR_SMTP_USER", USER)
    with pytest.raises(UsageError, match="set both"):
        target.check()
    assert mail_target("smtps://mail.example.com?to=a@b.c").port == 465
    assert smtplib.SMTP_SSL_PORT == 465
