"""Cut the public lists of neo-clouds down to what the build reads.

    python -m advisor.infra.build.catalog.neo.extract DIR

DIR holds the files that `infra/sources/catalog/SOURCES.md` lists (names as there). Needed only when
one of them is replaced: the extracts are committed.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from advisor.infra.build.catalog.tables import SOURCES, OutputTable, number, table

Row = dict[str, str]
Read = Callable[[str], list[Row]]
TYPE_HEADER = (
    "cloud",
    "instance_type",
    "card",
    "gpu_count",
    "vcpus",
    "memory_gib",
    "local_disk_gb",
    "regions",
    "price_per_hour",
    "spot_price_per_hour",
    "currency",
    "as_of",
    "source",
)
HOUR_HEADER = ("cloud", "card", "tier", "usd_per_gpu_hour", "as_of", "source")
# Names in the price trackers -> the cloud's own name.
_CLOUDS = {"datacrunch": "verda", "jarvis-labs": "jarvislabs"}
# Clouds whose list prices whole instances: (date of the price, source).
_WHOLE = {
    "lambda": ("2026-05-20", "anycloud-62ff0a98"),
    "oci": ("2026-01-01", "skypilot-catalog"),
    # The source has no date; its prices are of 2024 or 2025.
    "paperspace": ("2024-01-01", "skypilot-paperspace"),
}
# Regions whose source name is not a single word.
_REGIONS = {"all": "global", "East Coast (NY2)": "ny2"}
_EUROPEAN = ("civo", "leafcloud", "infomaniak", "ovh")
# Clouds with known instance shapes; their prices are GPU-hour prices from another list.
_SHAPES = ("nebius", "verda", "hyperstack", "jarvislabs", "scaleway")
# Clouds that sell by the GPU; the shape of one GPU is from the offerings of 2026-05-24.
_BY_GPU = ("runpod", "digitalocean", "vultr")
_OFFERINGS, _HOURS = ("2026-05-24", "gpu-pricing-8f09a680"), ("2026-08-22", "gpurentalprices")
_NO_INSTANCE = ("serverless",)


def main(folder: Path) -> None:
    """Write every extract to infra/sources."""

    def read(name: str) -> list[Row]:
        with (folder / name).open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    for extract in extracts(read):
        (SOURCES / extract.path).write_bytes(extract.encoded())


def extracts(read: Read) -> list[OutputTable]:
    """All extracts; `read` gives the rows of a list by its file name."""
    types = [*_listed(read), *_sold_by_gpu(read), *_european(read), *_vast(read)]
    cells = [tuple(row.get(column, "") for column in TYPE_HEADER) for row in types]
    clouds = {row["cloud"] for row in types} | {"ovh"}
    hours = [*_tracked(read), *_offered(read)]
    prices = [tuple(row[column] for column in HOUR_HEADER) for row in hours if row["cloud"] in clouds]
    ovh = [row for row in read("ovh_gpu_types_2026-01.csv") if row["status"] == "ACTIVE"]
    return [
        table("catalog/neo_types.csv", TYPE_HEADER, cells),
        table("catalog/neo_gpu_hours.csv", HOUR_HEADER, sorted(set(prices))),
        table("sparecores/ovh_gpu_types.csv", _OVH, [[row[c] for c in _OVH] for row in ovh]),
    ]


_OVH = ("instance_type", "vcpus", "memory_gib", "cpu_model", "gpu_model", "gpu_count", "local_storage_gb")


def _listed(read: Read) -> Iterator[Row]:
    for row in read("neocloud_instance_types.csv"):
        cloud = row["provider"]
        if cloud in _WHOLE:
            day, source = _WHOLE[cloud]
            price = {
                "price_per_hour": number(row["usd_per_hour_at_source"]),
                "as_of": day,
                "spot_price_per_hour": number(row["spot_usd_per_hour_at_source"]),
                "currency": "USD",
                "source": source,
            }
        elif cloud in _SHAPES or row["instance_type"].startswith("gpu-h100x"):
            price = {"source": "skypilot-catalog"}
        else:  # only prices of 2024 and 2025 exist
            continue
        yield {
            "cloud": cloud,
            "instance_type": row["instance_type"],
            "card": _card(row),
            "gpu_count": row["gpu_count"],
            "vcpus": row["vcpus"],
            "memory_gib": number(row["memory_gib"]),
            "regions": _REGIONS.get(row["regions"], row["regions"]),
        } | price


def _card(row: Row) -> str:
    """The provider's name for the GPU; Lambda's type names distinguish variants of a GPU."""
    if row["provider"] != "lambda" or not row["gpu"]:
        return row["gpu"] + ("-NVLink" if row["instance_type"].endswith("-NVLink") else "")
    name = re.sub(r"^gpu_\d+x_", "", row["instance_type"])
    return "a100_sxm4" if row["instance_type"] == "gpu_8x_a100" else name


def _sold_by_gpu(read: Read) -> Iterator[Row]:
    """A type with one GPU each, and one per tier if tiers differ in more than price."""
    shapes: dict[tuple[str, str], Row] = {}
    for row in read("gpu_offerings_2026-05-24.csv"):
        cloud = row["provider"]
        if cloud in _BY_GPU and row["vcpus_per_gpu"] and row["is_spot"] == "0":
            shapes.setdefault((cloud, _offered_card(row)), row)
    for (cloud, card), row in shapes.items():
        yield {
            "cloud": cloud,
            "instance_type": "",
            "card": card,
            "gpu_count": "1",
            "vcpus": row["vcpus_per_gpu"],
            "memory_gib": row["ram_gb_per_gpu"],
            "regions": "global",
            "source": _OFFERINGS[1],
        }


def _european(read: Read) -> Iterator[Row]:
    """Whole types, priced in dollars (Civo) or euros. A disk not described as local is left out: Infomaniak
    sells disks by their rate, which no file states."""
    for row in read("eu_clouds_gpu_2026.csv"):
        cloud = row["provider"]
        if cloud not in _EUROPEAN:
            continue
        name, card = row["instance_type"].lower(), row["gpu"]
        if cloud == "civo":  # 'GPU A100 40GB Small (1x)'
            name = re.sub(r"[^a-z0-9]+", "-", name).strip("-")
            card = " ".join(row["instance_type"].split(" ")[1:-2])
        yield {
            "cloud": cloud,
            "instance_type": name,
            "card": card,
            "gpu_count": row["gpu_count"],
            "vcpus": row["vcpus"],
            "memory_gib": row["ram_gb"],
            "local_disk_gb": row["disk_gb"] if cloud in ("civo", "ovh") else "",
            "regions": row["location"],
            "price_per_hour": number(row["price_per_hour"]),
            "currency": row["currency"],
            "as_of": row["as_of"],
            "source": "eu-cloud-prices-ec4a406a",
        }


def _vast(read: Read) -> Iterator[Row]:
    """Types by country as region, with a country's cheapest offer. vCPUs and RAM in the file come from type
    names (32 and 64 GiB for one GPU and for eight alike), so they are not facts of a host."""
    best: dict[tuple[str, str], Row] = {}
    for row in read("vast_offers_2026-05-07.csv"):
        where = row["region"].split()[-2]
        key = (row["instance_type"], where)
        if key not in best or float(row["usd_per_hour"]) < float(best[key]["usd_per_hour"]):
            best[key] = row
    for (name, where), row in best.items():
        yield {
            "cloud": "vast",
            "instance_type": name,
            "card": name.split("-")[1],
            "gpu_count": row["gpu_count"],
            "regions": where,
            "price_per_hour": number(row["usd_per_hour"]),
            "currency": "USD",
            "as_of": "2026-05-07",
            "source": "anycloud-vast",
        }


def _tracked(read: Read) -> Iterator[Row]:
    day, source = _HOURS
    for row in read("gpu_rental_prices_2026-08-22.csv"):
        if row["kind"] not in _NO_INSTANCE:
            yield _hour(row["provider"], row["gpu"], row["kind"], row["usd_per_gpu_hour"], day, source)


def _offered(read: Read) -> Iterator[Row]:
    day, source = _OFFERINGS
    for row in read("gpu_offerings_2026-05-24.csv"):
        yield _hour(row["provider"], _offered_card(row), row["tier"], row["usd_per_gpu_hour"], day, source)


def _offered_card(row: Row) -> str:
    """'NVIDIA A100 80': the memory is added if the name lacks it, since variants differ by it."""
    return f"{row['gpu_model']} {row['vram_gb']}GB"


def _hour(provider: str, card: str, tier: str, usd: str, day: str, source: str) -> Row:
    return {
        "cloud": _CLOUDS.get(provider, provider),
        "card": card,
        "tier": tier,
        "usd_per_gpu_hour": number(usd),
        "as_of": day,
        "source": source,
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]))
