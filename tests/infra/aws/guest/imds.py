"""An instance metadata service, version 2, on loopback: as EC2's guide describes it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler

from tests.loopback import on_loopback

TTL = "X-aws-ec2-metadata-token-ttl-seconds"
TOKEN = "X-aws-ec2-metadata-token"


@dataclass
class Service:
    """What it knows; a token serves `uses` requests. `broken` requests are answered with 503."""

    told: dict[str, str] = field(
        default_factory=lambda: {
            "meta-data/instance-id": "i-0123456789abcdef0",
            "meta-data/placement/region": "us-east-1",
        }
    )
    uses: int = 1_000
    broken: int = 0
    tokens: int = 0
    address: str = ""
    left: dict[str, int] = field(default_factory=dict)

    def take_back(self, text='{"action": "terminate", "time": "2026-11-21T12:02:00Z"}'):
        """The notice of the spot market."""
        self.told["meta-data/spot/instance-action"] = text


@contextmanager
def serving(service: Service | None = None) -> Iterator[Service]:
    """The service at its `address`."""
    service = service or Service()

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self):
            if self.path != "/latest/api/token" or not self.headers.get(TTL, "").isdigit():
                return self._answer(400)
            service.tokens += 1
            token = f"token-{service.tokens}"
            service.left[token] = service.uses
            return self._answer(200, token)

        def do_GET(self):
            if service.broken:
                service.broken -= 1
                return self._answer(503)
            token = self.headers.get(TOKEN, "")
            if service.left.get(token, 0) <= 0:
                return self._answer(401)
            service.left[token] -= 1
            text = service.told.get(self.path.removeprefix("/latest/"))
            return self._answer(404) if text is None else self._answer(200, text)

        def _answer(self, status, text=""):
            self.send_response(status)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

    with on_loopback(Handler) as server:
        service.address = f"http://127.0.0.1:{server.server_port}"
        yield service
