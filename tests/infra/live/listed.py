"""A small HTTP server on loopback that speaks Azure's and Google's price lists.

Nothing here was recorded from the real services: the shapes are those of their documentation (Azure Retail
Prices overview; Cloud Billing API, services.skus.list), names and rates are those of the committed sources.
`faults` come first, one a request."""

import copy
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from tests.loopback import on_loopback

KEY = "a-key-that-is-secret"
AZURE, GCP = "/api/retail/prices", "/v1/services/6F81-5844-456A/skus"


_ROWS = json.loads((Path(__file__).parents[2] / "data/price_files/live_rows.json").read_text())


def meter(name: str, usd: Any, region: str = "westeurope", **more: Any) -> dict[str, Any]:
    plain = name.removeprefix("Standard_").replace("_", " ")
    expected = {"retailPrice": usd, "unitPrice": usd, "armRegionName": region, "armSkuName": name}
    return {**_ROWS["azure_meter"], **expected, "meterName": plain, "skuName": plain, **more}


def spot_meter(name: str, usd: Any, region: str = "westeurope", **more: Any) -> dict[str, Any]:
    plain = name.removeprefix("Standard_").replace("_", " ")
    return meter(name, usd, region, **{"meterName": f"{plain} Spot", "skuName": f"{plain} Spot"} | more)


def sku(
    description: str, usd: float, *regions: str, usage: str = "OnDemand", unit: str = "h", **more: Any
) -> dict[str, Any]:
    """A SKU of Google's list at one flat rate; `more` overrides fields of its price."""
    entry, nanos = copy.deepcopy(_ROWS["gcp_sku"]), round(usd * 1e9)
    price = {"units": str(nanos // 10**9), "nanos": nanos % 10**9, "currencyCode": "USD"}
    (expected,) = entry["pricingInfo"]
    rates = [{"startUsageAmount": 0, "unitPrice": price}]
    expected["pricingExpression"] |= {"usageUnit": unit, "tieredRates": rates, **more}
    entry["category"]["usageType"] = usage
    return {**entry, "description": description, "serviceRegions": list(regions or ("us-central1",))}


FAULTS = {
    "throttle": (429, b"{}"),
    "broken": (503, b"oops"),
    "denied": (403, b"{}"),
    "refused": (400, b'{"error": {"status": "INVALID_ARGUMENT", "message": "%s"}}' % KEY.encode()),
    "redirect": (302, b""),
    "garbage": (200, b"<html>a captive portal</html>"),
    "cut": (200, b'{"Items": [{"retailPrice": 0.'),
    "list": (200, b"[]"),
    "not-a-number": (200, b'{"Items": [NaN], "skus": [NaN]}'),
    "nothing-in-it": (200, b'{"Items": 7, "skus": 7}'),
    "deep": (200, b"[" * 200_000),
    "half-a-character": (
        200,
        rb'{"Items": [], "skus": [], "NextPageLink": "https://a/?b=\ud800",'
        rb' "nextPageToken": "\ud800"}',
    ),
}


@dataclass
class Listed:
    meters: list[Any] = field(default_factory=list)
    skus: list[Any] = field(default_factory=list)
    page: int = 100
    endless: bool = False
    trickles: bool = False
    faults: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    url: str = ""
    released: threading.Event = field(default_factory=threading.Event)

    def answer(self, path: str) -> tuple[int, bytes]:
        self.asked.append(path)
        fault = self.faults.pop(0) if self.faults else ""
        if fault in FAULTS:
            return FAULTS[fault]
        if fault == "hang":
            self.released.wait(30)
        parts = urlsplit(path)
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        if parts.path == AZURE:
            return 200, json.dumps(self._azure(query)).encode()
        if parts.path == GCP:
            return (200, json.dumps(self._gcp(query)).encode()) if self.keys[-1] == KEY else (403, b"{}")
        return (200, self.files[parts.path]) if parts.path in self.files else (404, b"")

    def _azure(self, query: dict[str, str]) -> dict[str, Any]:
        """The items that a filter asks for; lies among them are let through with their size."""
        sizes = set(re.findall(r"armSkuName eq '([^']+)'", query["$filter"]))
        named = [entry.get("armSkuName") if isinstance(entry, dict) else None for entry in self.meters]
        result = [row for row, size in zip(self.meters, named, strict=True) if size is None or size in sizes]
        start = int(query.get("$skip", 0))
        after = 0 if self.endless else start + self.page
        # The real service names its own host and port, whoever asks through whatever proxy.
        link = f"https://prices.azure.com:443{AZURE}?$filter={quote(query['$filter'])}&$skip={after}"
        more = after < len(result) or self.endless
        about = {"BillingCurrency": "USD", "CustomerEntityId": "Default", "CustomerEntityType": "Retail"}
        page = {"Items": result[start : start + self.page], "NextPageLink": link if more else None}
        return {**about, **page, "Count": min(self.page, len(result) - start)}

    def _gcp(self, query: dict[str, str]) -> dict[str, Any]:
        start = int(query.get("pageToken", 0))
        after = 0 if self.endless else start + self.page
        more = after < len(self.skus) or self.endless
        return {"skus": self.skus[start : start + self.page], "nextPageToken": str(after) if more else ""}


@contextmanager
def serving(listed: Listed) -> Iterator[Listed]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            listed.keys.append(self.headers.get("X-Goog-Api-Key"))
            status, content = listed.answer(self.path)
            try:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                if status == 302:
                    self.send_header("Location", f"{listed.url}/elsewhere")
                if status == 429:
                    self.send_header("Retry-After", "0")
                self.end_headers()
                pieces = [content[number : number + 1] for number in range(len(content))]
                for piece in pieces if listed.trickles else [content]:
                    self.wfile.write(piece)
                    if listed.trickles and listed.released.wait(0.05):
                        break
            except OSError:
                pass  # the client has given up, as it should

    with on_loopback(Handler) as server:
        listed.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield listed
        finally:
            listed.released.set()
