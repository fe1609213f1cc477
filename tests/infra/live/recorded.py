"""A small HTTP server on loopback that speaks AWS's JSON protocol from recorded answers.

moto has no Price List API and no quotas of EC2. Answers have the form of the API's documentation;
prices are those of the committed snapshot. `faults` come first, one a request.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def product(name: str, *prices: str, unit: str = "Hrs", currency: str = "USD") -> str:
    """One entry of a `PriceList`: a product with an on-demand term for each price."""
    dimensions = {
        f"SKU.JRTCKXETXF.{number}": {
            "unit": unit,
            "pricePerUnit": {currency: price},
            "description": f"${price} per On Demand Linux {name} Instance Hour",
        }
        for number, price in enumerate(prices)
    }
    return json.dumps(
        {
            "product": {
                "productFamily": "Compute Instance",
                "attributes": {"instanceType": name, "operatingSystem": "Linux"},
            },
            "terms": {"OnDemand": {"SKU.JRTCKXETXF": {"priceDimensions": dimensions}}},
        }
    )


@dataclass
class Recorded:
    """What the server knows and does."""

    products: dict[str, list[str]] = field(default_factory=dict)
    quotas: dict[str, float] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    asked: list[dict[str, Any]] = field(default_factory=list)
    url: str = ""
    released: threading.Event = field(default_factory=threading.Event)

    def answer(self, operation: str, request: dict[str, Any]) -> tuple[int, bytes]:
        """Status and body of one request."""
        self.asked.append(request)
        fault = self.faults.pop(0) if self.faults else ""
        if fault == "throttle":
            return 400, json.dumps({"__type": "ThrottlingException"}).encode()
        if fault == "denied":
            return 400, json.dumps({"__type": "AccessDeniedException"}).encode()
        if fault == "garbage":
            return 200, b"<html>a captive portal</html>"
        if fault == "cut":
            return 200, b'{"PriceList": ["{\\"product'
        if fault == "broken":
            return 500, b"{}"
        if fault == "hang":
            self.released.wait(30)
        return 200, json.dumps(self._good(operation, request)).encode()

    def _good(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        if operation == "GetServiceQuota":
            return {"Quota": {"Value": self.quotas[request["QuotaCode"]]}}
        name = next(f["Value"] for f in request["Filters"] if f["Field"] == "instanceType")
        return {"FormatVersion": "aws_v1", "PriceList": self.products.get(name, [])}


@contextmanager
def serving(recorded: Recorded) -> Iterator[Recorded]:
    """The server for as long as the block runs; a hanging request is released at its end."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            operation = self.headers["X-Amz-Target"].rpartition(".")[2]
            status, content = recorded.answer(operation, json.loads(body))
            try:
                self.send_response(status)
                self.send_header("Content-Type", "application/x-amz-json-1.1")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)
            except OSError:
                pass  # the client has given up, as it should

        def log_message(self, *_: object) -> None:
            """Silence."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    recorded.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield recorded
    finally:
        recorded.released.set()
        server.shutdown()
        server.server_close()
        thread.join()
