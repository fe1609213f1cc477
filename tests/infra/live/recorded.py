"""A small HTTP server on loopback that speaks AWS's JSON and EC2 protocols from recorded answers.

moto has no Price List API, no quotas of EC2, and no spot price but one. Answers have the form of the API's
documentation; prices are those of the committed snapshot. `faults` come first, one a request; `faulty` are
operations that always answer so."""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs

from tests.infra.aws.wire import Request, ec2_answer, refusal, spot_prices
from tests.loopback import on_loopback


def product(name: str, *prices: str, unit: str = "Hrs", currency: str = "USD", **attributes: str) -> str:
    """One entry of a `PriceList`: a product with an on-demand term for each price."""
    dimensions = {
        f"SKU.JRTCKXETXF.{number}": {
            "unit": unit,
            "pricePerUnit": {currency: price},
            "description": f"${price} per On Demand Linux {name} Instance Hour",
        }
        for number, price in enumerate(prices)
    }
    attributes = {"instanceType": name, "operatingSystem": "Linux"} | attributes
    terms = {"OnDemand": {"SKU.JRTCKXETXF": {"priceDimensions": dimensions}}}
    sold = {"productFamily": "Compute Instance", "attributes": attributes}
    return json.dumps({"product": sold, "terms": terms})


FAULTS = {
    "throttle": (400, b'{"__type": "ThrottlingException"}'),
    "denied": (400, b'{"__type": "AccessDeniedException"}'),
    "expired": (400, b'{"__type": "ExpiredTokenException"}'),
    "garbage": (200, b"<html>a captive portal</html>"),
    "cut": (200, b'{"PriceList": ["{\\"product'),
    "broken": (500, b"{}"),
}


@dataclass
class Recorded:
    products: dict[str, list[str]] = field(default_factory=dict)
    quotas: dict[str, float] = field(default_factory=dict)
    # Of each type: zone and price; the types that the region offers.
    spot: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    types: list[str] = field(default_factory=list)
    faulty: dict[str, str] = field(default_factory=dict)
    operations: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    asked: list[dict[str, Any]] = field(default_factory=list)
    url: str = ""
    released: threading.Event = field(default_factory=threading.Event)

    def answer(self, operation: str, request: dict[str, Any]) -> tuple[int, bytes]:
        self.asked.append(request)
        self.operations.append(operation)
        fault = self.faults.pop(0) if self.faults else self.faulty.get(operation, "")
        if fault in EC2_ERRORS and operation in EC2:
            return 400, refusal(Request("ec2", "us-east-1", operation, request), EC2_ERRORS[fault]).body
        if fault in FAULTS:
            return FAULTS[fault]
        if fault == "hang":
            self.released.wait(30)
        if operation in EC2:
            return 200, EC2[operation](self, request)
        return 200, json.dumps(self._good(operation, request)).encode()

    def _good(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        if operation == "GetServiceQuota":
            return {"Quota": {"Value": self.quotas[request["QuotaCode"]]}}
        name = next(f["Value"] for f in request["Filters"] if f["Field"] == "instanceType")
        return {"FormatVersion": "aws_v1", "PriceList": self.products.get(name, [])}


def _offerings(entry: Recorded, _request: Mapping[str, Any]) -> bytes:
    items = "".join(
        f"<item><instanceType>{name}</instanceType><locationType>region</locationType></item>"
        for name in entry.types
    )
    return _answered("DescribeInstanceTypeOfferings", "instanceTypeOfferingSet", items)


def _spot(entry: Recorded, request: Mapping[str, Any]) -> bytes:
    wanted = [value for key, value in request.items() if key.startswith("InstanceType.")]
    rows = ((name, zone, price) for name in wanted for zone, price in entry.spot.get(name, []))
    return spot_prices(rows).body


def _answered(operation: str, name: str, items: str) -> bytes:
    return ec2_answer(operation, f"<{name}>{items}</{name}>").body


EC2 = {"DescribeInstanceTypeOfferings": _offerings, "DescribeSpotPriceHistory": _spot}
EC2_ERRORS = {"throttle": "RequestLimitExceeded", "denied": "UnauthorizedOperation"}
EC2_ERRORS["expired"] = "RequestExpired"


@contextmanager
def serving(recorded: Recorded) -> Iterator[Recorded]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            target = self.headers.get("X-Amz-Target")
            if target:
                operation, request = target.rpartition(".")[2], json.loads(body)
            else:
                request = {key: value[0] for key, value in parse_qs(body.decode()).items()}
                operation = request["Action"]
            status, content = recorded.answer(operation, request)
            try:
                self.send_response(status)
                self.send_header("Content-Type", "application/x-amz-json-1.1")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)
            except OSError:
                pass  # the client has given up, as it should

    with on_loopback(Handler) as server:
        recorded.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield recorded
        finally:
            recorded.released.set()
