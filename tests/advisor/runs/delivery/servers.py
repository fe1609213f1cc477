"""Real servers on loopback: one that takes posts, one that takes mail, and what makes them TLS."""

import datetime
import http.server
import ipaddress
import ssl
from contextlib import contextmanager

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from advisor.runs.delivery.letter import Attachment, Letter
from advisor.runs.delivery.targets import deliver
from tests.loopback import on_loopback

USER, PASSWORD = "ann@example.com", "a secret of ann's"


def parcel(**changes):
    values = {
        "kind": "report",
        "title": "Sizing report",
        "text": "g4dn.xlarge, $0.558 an hour.\n",
        "day": "2026-11-21",
        "document": {"schema": "advisor.report/1"},
        "files": (
            Attachment("report.md", "text/markdown; charset=utf-8", "# 报告 📈\n".encode()),
            Attachment("report.xlsx", "application/zip", b"PK\x03\x04\xff"),
        ),
    }
    return Letter(**(values | changes))


def sent(target, sleep=pytest.fail, **options):
    """What becomes of a parcel at one target; nothing is tried again unless `sleep` may be called."""
    return deliver(parcel(), target, sleep=sleep, **options)


def certificate(folder):
    """A certificate for this machine that nobody has signed but itself, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = folder / "server.pem"
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM) + secret)
    return path


def tls(path):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context


class Hook(http.server.BaseHTTPRequestHandler):
    """Answers what the test says, one after another; then 204."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.got.append((self.path, headers, body))
        answers = self.server.answers
        status, headers, said = answers.pop(0) if answers else (204, {}, b"")
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def do_GET(self):
        self.server.got.append((self.path, {}, b"followed"))
        self.send_error(404)


@contextmanager
def hook(answers=(), certificate_path=None):
    """A server with `got` requests and an `url`; `answers` are (status, headers, body)."""
    kind, context = ("https", tls(certificate_path)) if certificate_path else ("http", None)
    with on_loopback(Hook, context) as server:
        server.got, server.answers = [], list(answers)
        server.url = f"{kind}://127.0.0.1:{server.server_port}/services/T0/secret-path?key=hidden"
        yield server


class Postbox:
    """Takes mail; answers RCPT with the next of `answers`, if there are any."""

    def __init__(self, answers=()):
        self.got, self.answers, self.logins = [], list(answers), []

    async def handle_RCPT(self, _server, _session, envelope, address, _options):
        answer = self.answers.pop(0) if self.answers else "250 OK"
        if answer.startswith("250"):
            envelope.rcpt_tos.append(address)
        return answer

    async def handle_DATA(self, _server, session, envelope):
        self.got.append((envelope.mail_from, list(envelope.rcpt_tos), envelope.content))
        self.tls = session.ssl is not None
        return "250 taken"

    def login(self, _server, _session, _envelope, _mechanism, data):
        self.logins.append((data.login, data.password))
        good = (data.login, data.password) == (USER.encode(), PASSWORD.encode())
        return AuthResult(success=good, handled=False)


class AnyPort(Controller):
    """aiosmtpd's, which tries its server at the port that was asked for; ours asks for any."""

    def _trigger_server(self):
        self.port = self.server.sockets[0].getsockname()[1]
        super()._trigger_server()


@contextmanager
def postbox(answers=(), certificate_path=None, *, needs_login=False):
    """A mail server with what it `got` and its `port`; STARTTLS where there is a certificate."""
    box = Postbox(answers)
    words = {"tls_context": tls(certificate_path)} if certificate_path else {}
    controller = AnyPort(
        box,
        hostname="127.0.0.1",
        port=0,
        authenticator=box.login,
        auth_required=needs_login,
        auth_require_tls=bool(certificate_path),
        ready_timeout=20,
        **words,
    )
    controller.start()
    box.port = controller.port
    try:
        yield box
    finally:
        controller.stop()
