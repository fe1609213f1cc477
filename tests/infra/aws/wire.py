"""Requests and answers of AWS as they go over the wire, read and written by hand."""

import io
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

SPACE = "http://ec2.amazonaws.com/doc/2016-11-15/"
_SCOPE = re.compile(r"Credential=[^/]*/\d+/([^/]+)/([^/]+)/")
# What EC2 answers 5xx to; all else that it refuses is a 400.
_STATUS = {
    "RequestLimitExceeded": 503,
    "ServerInternal": 500,
    "InternalError": 500,
    "Unavailable": 503,
    "ServiceUnavailable": 503,
    "DryRunOperation": 412,
}

Environ = dict[str, Any]
App = Callable[[Environ, Callable[..., Any]], Iterable[bytes]]


@dataclass(frozen=True)
class Request:
    """One request: `values` are the fields of a form, or the JSON document."""

    service: str
    region: str
    operation: str
    values: Mapping[str, Any]


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


def read_request(environ: Environ) -> tuple[Request, bytes]:
    length = int(environ.get("CONTENT_LENGTH") or 0)
    body = environ["wsgi.input"].read(length)
    environ["wsgi.input"] = io.BytesIO(body)
    result = _SCOPE.search(environ.get("HTTP_AUTHORIZATION", ""))
    region, service = result.groups() if result else ("us-east-1", "s3")
    target = environ.get("HTTP_X_AMZ_TARGET", "")
    if target:
        return Request(service, region, target.rpartition(".")[2], json.loads(body)), body
    if service == "s3":
        operation = f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}"
        return Request(service, region, operation, {}), body
    values = dict(parse_qsl(body.decode(), keep_blank_values=True))
    return Request(service, region, values.get("Action", ""), values), body


def call(app: App, environ: Environ, body: bytes) -> Answer:
    lines: list[Any] = []

    def start(status: str, headers: list[tuple[str, str]], *_: Any) -> None:
        lines[:] = [int(status.split()[0]), dict(headers)]

    environ["wsgi.input"] = io.BytesIO(body)
    content = b"".join(app(environ, start))
    return Answer(lines[0], content, lines[1])


def refusal(request: Request, code: str, message: str = "refused by the test") -> Answer:
    """An error as the service of the request tells it."""
    status = _STATUS.get(code, 400)
    if request.service == "s3":
        expected = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>"
        return Answer(403 if code == "AccessDenied" else status, expected.encode(), _XML)
    if request.service in ("ec2", "sts", "iam"):
        return Answer(status, _error_xml(request.service, code, message), _XML)
    document = json.dumps({"__type": code, "message": message})
    return Answer(status, document.encode(), {"Content-Type": "application/x-amz-json-1.1"})


def ec2_answer(operation: str, inner: str) -> Answer:
    expected = f"<requestId>r</requestId>{inner}"
    text = f'<{operation}Response xmlns="{SPACE}">{expected}</{operation}Response>'
    return Answer(200, text.encode(), _XML)


def spot_prices(rows: Iterable[tuple[str, str, str]]) -> Answer:
    """EC2's answer with the price of each type and zone."""
    items = "".join(
        f"<item><instanceType>{name}</instanceType><spotPrice>{usd}</spotPrice>"
        f"<availabilityZone>{zone}</availabilityZone><productDescription>Linux/UNIX</productDescription>"
        "<timestamp>2026-11-21T10:00:00.000Z</timestamp></item>"
        for name, zone, usd in rows
    )
    return ec2_answer("DescribeSpotPriceHistory", f"<spotPriceHistorySet>{items}</spotPriceHistorySet>")


def json_answer(document: Any) -> Answer:
    headers = {"Content-Type": "application/x-amz-json-1.1", "x-amzn-RequestId": "r"}
    return Answer(200, json.dumps(document).encode(), headers)


def _error_xml(service: str, code: str, message: str) -> bytes:
    error = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>"
    if service == "ec2":
        return f"<Response><Errors>{error}</Errors><RequestID>r</RequestID></Response>".encode()
    return f"<ErrorResponse>{error}<RequestId>r</RequestId></ErrorResponse>".encode()


_XML = {"Content-Type": "text/xml"}
