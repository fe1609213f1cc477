"""A small HTTP server on loopback with AWS's public price list: an index, and a CSV a region; and its spot
advisor.

Nothing was recorded: the form is that of AWS's documentation of the bulk API (five lines about the list, all
cells quoted, rows of other operating systems, tenancies, terms, disks and traffic)."""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

from tests.loopback import on_loopback

INDEX = "/offers/v1.0/aws/AmazonEC2/current/region_index.json"
FILE = "/offers/v1.0/aws/AmazonEC2/20261120000000/us-east-1/index"
ADVISOR = "/spot-advisor-data.json"
ABOUT = (
    ("FormatVersion", "v1.0"),
    ("Disclaimer", "This pricing list is for informational purposes only. All prices are subject"),
    ("Publication Date", "2026-11-20T18:04:15Z"),
    ("Version", "20261120180415"),
    ("OfferCode", "AmazonEC2"),
)
_ROWS = json.loads((Path(__file__).parents[2] / "data/price_files/live_rows.json").read_text())
# A type's price, rows of it that are not, each by what it differs in, and a volume's price.
PLAIN, OTHERS = _ROWS["aws_csv_row"], _ROWS["aws_csv_others"]
STORAGE = _ROWS["aws_csv_storage"]


def line(cells: Iterable[str]) -> bytes:
    return (",".join(f'"{cell}"' for cell in cells) + "\n").encode()


def row(**cells: str) -> bytes:
    return line({**PLAIN, **cells}.values())


def rows(prices: Mapping[str, float]) -> Iterator[bytes]:
    """The list: what stands before, then each type's price among rows that are not it."""
    yield from map(line, ABOUT)
    yield line(PLAIN)
    for name, usd in prices.items():
        for index, other in enumerate(OTHERS):
            yield row(**{"Instance Type": name, "PricePerUnit": f"{usd * (index + 2):.10f}", **other})
        yield row(**{"Instance Type": name, "PricePerUnit": f"{usd:.10f}"})
        yield row(**STORAGE)


def advice(savings: Mapping[str, Mapping[str, int]]) -> bytes:
    """What the advisor tells of us-east-1, as it lies in its bucket."""
    ranges = (("<5%", 5), ("5-10%", 11), ("10-15%", 16), ("15-20%", 22), (">20%", 100))
    other = {name: {"s": 33, "r": 0} for name in savings}
    rows = [{"index": n, "label": label, "dots": n, "max": most} for n, (label, most) in enumerate(ranges)]
    types = {name: {"cores": 4, "emr": True, "ram_gb": 16.0} for name in savings}
    here, there = {"Windows": other, "Linux": savings}, {"Linux": other, "Windows": other}
    document = {"global_rate": "<10%", "instance_types": types, "ranges": rows}
    return json.dumps(document | {"spot_advisor": {"us-east-1": here, "us-west-2": there}}).encode()


class Bulk:
    """What is served: pieces of the CSV, asked for anew each time; and what was asked."""

    def __init__(self, prices: Mapping[str, float]) -> None:
        self.prices = dict(prices)
        self.more: Iterable[bytes] = ()
        self.cut = False
        self.asked: list[str] = []
        self.advice: bytes | None = advice({"g4dn.xlarge": {"s": 60, "r": 2}})
        self.url = ""

    def pieces(self) -> Iterator[bytes]:
        whole = list(rows(self.prices))
        yield from (*whole[:-1], whole[-1][:-9]) if self.cut else whole
        yield from self.more


@contextmanager
def serving(bulk: Bulk) -> Iterator[Bulk]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            bulk.asked.append(self.path)
            self.send_response(404 if bulk.advice is None and self.path == ADVISOR else 200)
            self.end_headers()
            try:
                if self.path == INDEX:
                    entry = {"regionCode": "us-east-1", "currentVersionUrl": f"{FILE}.json"}
                    self.wfile.write(json.dumps({"regions": {"us-east-1": entry}}).encode())
                elif self.path == ADVISOR:
                    self.wfile.write(bulk.advice or b"")
                else:
                    for piece in bulk.pieces():
                        self.wfile.write(piece)
            except OSError:
                pass  # the client has given up, as it should

    with on_loopback(Handler) as server:
        bulk.url = f"http://127.0.0.1:{server.server_port}{INDEX}"
        yield bulk
