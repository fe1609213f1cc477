"""Lists the catalogue's networks, offers and GPUs for a terminal; GPUs also as JSON and as rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from advisor.catalog import PartialOffer
from advisor.catalog.assumed import THREADS_PER_CORE
from advisor.catalog.gpus import SORT_KEYS, usd_per_gpu_hour
from advisor.catalog.instances import GpuSheet, PartialType
from advisor.catalog.prices import RATE_VARIABLE
from advisor.domain import InstanceType, Offer
from advisor.messages import format_counted, format_mib, format_usd
from advisor.render.records import fields, price_block
from advisor.render.text import fitting_table, table, usd_or_dash

Record = Mapping[str, Any]
_SHOWN_NAMES = 3


def families_text(networks: Sequence[Record]) -> str:
    """Return a line per family of networks, and how to see more."""
    families: dict[str, list[Record]] = {}
    for network in networks:
        families.setdefault(network["family"], []).append(network)
    rows = [
        [
            family,
            f"{len(members):,}",
            f"{sum(any(member['gpus_measured'].values()) for member in members):,}",
            ", ".join(member["name"] for member in members[:_SHOWN_NAMES])
            + (", .." if len(members) > _SHOWN_NAMES else ""),
        ]
        for family, members in families.items()
    ]
    lines = [
        *table(["family", "networks", "published", "names"], rows, right=(1, 2)),
        "",
        f"{len(networks):,} networks in {len(families):,} families; `advisor networks SEARCH` "
        "lists some of them, --all all; published: a rate on a GPU was measured by others",
    ]
    return "\n".join(lines)


def networks_text(networks: Sequence[Record]) -> str:
    """Return a line per network."""
    header = ["family", "name", "title", "tasks", "input", "unit", "parameters", "GMACs/unit", "GPU rates"]
    rows = [
        [
            row["family"],
            row["name"],
            row["title"] if row["title"] != row["name"] else "",
            ", ".join(row["tasks"]),
            row["input"] or "x".join(map(str, row["input_shape"])),
            row["sample"],
            f"{row['parameters'] / 1e6:.2f} M",
            f"{row['gmacs_per_sample'] * row['samples_per_row']:.4g}",
            _rates_text(row),
        ]
        for row in networks
    ]
    return "\n".join(table(header, rows, right=(6, 7)))


def _rates_text(row: Record) -> str:
    """'published on 3 GPUs', 'modelled', '-': once for all tasks if it is the same for all."""
    texts = {}
    for task, rate in row["rates"].items():
        gpus = row["gpus_measured"][task]
        texts[task] = f"{rate} on {format_counted(gpus, 'GPU')}" if gpus else rate or "-"
    if len(set(texts.values())) == 1:
        return str(next(iter(texts.values())))
    return "; ".join(f"{task} {text}" for task, text in texts.items())


def language_models_text(models: Sequence[Record]) -> str:
    """Return a line per language model."""
    header = ["name", "weights", "active", "format", "GiB", "KV a token", "context", "rate"]
    rows = [
        [
            row["name"],
            f"{row['parameters'] / 1e9:,.1f} B",
            f"{row['active_parameters'] / 1e9:,.1f} B",
            row["precision"],
            f"{row['weights_gib']:,.1f}",
            f"{row['kv_bytes_per_token'] / 1024:,.0f} KiB",
            "-" if row["max_context"] is None else f"{row['max_context']:,}",
            "published" if row["measured"] else "modelled",
        ]
        for row in models
    ]
    return "\n".join(table(header, rows, right=(1, 2, 4, 5, 6)))


# As many as fit a terminal; JSON has no limit.
SHOWN_OFFERS = 40


class ListedOffer(NamedTuple):
    """An offer of a list, and the currency of its price."""

    offer: Offer | PartialOffer
    currency: str = "USD"


def offers_text(offers: Sequence[ListedOffer], total: int) -> str:
    """Return a line per offer, and how many more of `total` there are, in the columns that fit."""
    if not offers:
        return "No offer in the catalogue is like this."
    header = ["cloud", "instance", "region", "gpu", "vcpus", "cores", "memory", "per hour"]
    header += ["market", "price", "as of", "terms", "not orderable"]
    columns = dict(zip(header, zip(*map(_offer_cells, offers), strict=True), strict=True))
    if not any(columns["not orderable"]):
        del columns["not orderable"]
    left = ("cloud", "instance", "region", "gpu", "market", "price", *header[-3:])
    lines = fitting_table(columns, left, ("terms", "cores", "memory", "vcpus", "as of", "gpu"))
    if any("* " in line for line in lines):
        lines.append("* assumed: `advisor catalog show TYPE` has range and reason")
    if total > len(offers):
        more = f"{total - len(offers):,}"
        lines.append(f"... and {more} more; filter, or take all with -o json")
    for currency in dict.fromkeys(currency for _, currency in offers if currency != "USD"):
        lines.append(f"{currency}: {RATE_VARIABLE.format(currency)}=0.9 sets an exchange rate")
    return "\n".join(lines)


def _offer_cells(listed: ListedOffer) -> list[str]:
    """Return the cells of an offer; `?` marks what a partial offer lacks."""
    offer, currency = listed
    price, cores, accelerator, closed = offer.price, "?", None, None
    if isinstance(offer, PartialOffer):
        facts: PartialType | InstanceType = offer.type
    else:
        facts, accelerator, closed = offer.instance, offer.instance.accelerator, offer.closed
        # An asterisk marks cores computed from an assumed number of vCPUs per core.
        assumed = any(fact.name == THREADS_PER_CORE and not fact.imported for fact in offer.instance.assumed)
        cores = f"{offer.instance.physical_cores}{'*' if assumed else ''}"
    return [
        facts.cloud,
        facts.name,
        offer.region,
        # The GPUs or, without any, another accelerator.
        f"{facts.gpu_count or '?'} x {facts.gpu_name}" if facts.gpu_name else accelerator or "-",
        str(facts.vcpus or "?"),
        cores,
        format_mib(facts.memory_mib) if facts.memory_mib else "?",
        hourly_text(price.usd_per_hour, currency) if price.usd_per_hour else "free",
        str(offer.market),
        price.kind,
        price.as_of.isoformat(),
        price.terms,
        f"{closed.status.replace('_', ' ')} {closed.as_of or ''}".strip() if closed else "",
    ]


def hourly_text(per_hour: float, currency: str) -> str:
    """Return an hourly price in its currency: '$1.006', 'EUR 1.006'."""
    return format_usd(per_hour).replace("$", "$" if currency == "USD" else f"{currency} ")


GPUS_SCHEMA = "advisor.gpus/1"
_RATES = (
    *("fp64_tflops", "fp32_tflops", "tf32_tflops", "fp16_tflops", "bf16_tflops"),
    *("int8_tops", "fp8_tflops"),
)
_OFFER = ("cloud", "region", "market", "instance_type")
GPU_COLUMNS = (
    *("name", "architecture", "compute_capability", "memory_mib", "memory_gb_per_second"),
    *_RATES,
    *("watts", "link", "usd_per_gpu_hour", "usd_per_fp32_tflop_hour"),
    *_OFFER,
)


def gpu_rows(sheets: Sequence[GpuSheet], cheapest: Mapping[str, Offer], sort_by: str) -> list[dict[str, Any]]:
    """Return one JSON-ready flat record per GPU; unknown values are null and sorted last."""
    rows = [_gpu_row(sheet, cheapest.get(sheet.gpu.name)) for sheet in sheets]
    falling = SORT_KEYS[sort_by]

    def key(row: dict[str, Any]) -> tuple[bool, Any, str]:
        value = row[sort_by]
        if value is None:
            return True, 0, row["name"]
        return False, -value if falling else value, row["name"]

    return sorted(rows, key=key)


def _gpu_row(sheet: GpuSheet, offer: Offer | None) -> dict[str, Any]:
    gpu, usd = sheet.gpu, usd_per_gpu_hour(offer) if offer else None
    of_sheet = fields(sheet, "fp64_tflops int8_tops fp8_tflops")
    return {
        **fields(gpu, "name vendor architecture compute_capability memory_mib memory_gb_per_second"),
        **{name: of_sheet[name] if name in of_sheet else getattr(gpu, name) for name in _RATES},
        "watts": gpu.watts,
        "link": sheet.link,
        "usd_per_gpu_hour": usd,
        "usd_per_fp32_tflop_hour": usd / gpu.fp32_tflops if usd else None,
        "cheapest": offer
        and {
            "cloud": offer.instance.cloud,
            "region": offer.region,
            "market": str(offer.market),
            "instance_type": offer.instance.name,
            "gpus": offer.instance.gpu_count,
            "price": price_block(offer.price),
        },
        "sources": gpu.sources,
    }


def flat_gpu_row(row: Record) -> dict[str, Any]:
    """Return one record without nesting, for CSV and Markdown, with at least `GPU_COLUMNS`."""
    offer = row["cheapest"] or {}
    return {**row, **{name: offer.get(name) for name in _OFFER}}


def gpus_text(rows: Sequence[Record]) -> str:
    """Return a table 110 columns wide, and notes that explain its figures."""
    header = ["gpu", "cc", "memory", "GB/s", "fp64", "fp32", "tf32", "fp16", "int8", "watts"]
    header += ["link", "$/h", "$/TFLOP-h", "on"]
    rates = ("fp64_tflops", "fp32_tflops", "tf32_tflops", "fp16_tflops", "int8_tops", "watts")
    cells = [
        [
            row["name"],
            row["compute_capability"] or "-",
            format_mib(row["memory_mib"]),
            f"{row['memory_gb_per_second']:g}",
            *(_short(row[name]) for name in rates),
            row["link"] or "-",
            *(usd_or_dash(row[name] or None) for name in ("usd_per_gpu_hour", "usd_per_fp32_tflop_hour")),
            row["cheapest"]["instance_type"] if row["cheapest"] else "-",
        ]
        for row in rows
    ]
    return "\n".join([*table(header, cells, right=(*range(2, 10), 11, 12)), "", *_GPU_REMARKS])


_GPU_REMARKS = (
    "TFLOPS (int8: TOPS) are dense peaks of the data sheet; tf32 and fp16 with tensor cores where "
    "it has them.",
    "$/h is the cheapest instance's price over its GPUs, host included; $/TFLOP-h, over its fp32.",
    "A peak is no throughput: `advisor recommend` tells what a workload really reaches.",
)


def _short(value: float | None) -> str:
    """Return a number with three digits: '-', '0.473', '8.14', '989', '1979'."""
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 1000 else f"{value:.3g}"
