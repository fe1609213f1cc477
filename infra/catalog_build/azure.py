"""Azure: sizes whose name has vCPUs and often the card; RAM and the GPU count are not known."""

from __future__ import annotations

import re
from collections.abc import Mapping

from infra.catalog_build.hosts import UNNAMED, cloud_part, gpu_families
from infra.catalog_build.provenance import Source
from infra.catalog_build.tables import read_source
from infra.catalog_build.wide import Basis, CloudPart, price_row, wide_prices

Row = Mapping[str, str]
# Standard_NC4as_T4_v3: sub-family NC, 4 vCPUs, features, then the card and the version.
_AZURE_HOST = re.compile(r"^Standard_(N[A-Z]+?)(\d+)")
_AZURE_CARD = re.compile(r"_([A-Z]{1,6}\d{1,4}[A-Z]*)(?:_v\d+)?$")
_AZURE_VERSION = re.compile(r"_v\d+$")
# Cards that are not NVIDIA's.
_AMD = ("MI300X", "V620", "V710")

SOURCE = Source(
    "azure-352646f5",
    "2026-06-18",
    "Apache-2.0",
    "Azure/karpenter-provider-azure@352646f5 (Azure price list)",
    "Azure sizes and prices",
)
LIST = Basis("azure", "list", "USD", SOURCE.id)


def build() -> CloudPart:
    """Everything of Azure."""
    prices = wide_prices(read_source("catalog/azure_prices.csv"), ("vm_size",))
    rows = [price_row(size, "on-demand", cells, LIST.id) for size, cells in prices.items()]
    return cloud_part("azure", SOURCE, [azure_type(size) for size in prices], rows, (LIST,))


def azure_type(size: str) -> Row:
    """The facts that the name of a size tells."""
    host, card = _AZURE_HOST.match(size), _AZURE_CARD.search(size)
    version = _AZURE_VERSION.search(size)
    group, vcpus = host.groups() if host else ("", "")
    named = [group, card.group(1) if card else "", version.group()[1:] if version else "v1"]
    sheet = gpu_families().get(("azure", "_".join(part for part in named if part)), {})
    return {
        "instance_type": size,
        "vcpus": vcpus,
        "cpu_architecture": "arm64" if "GB200" in size else "x86_64",
        "gpu_vendor": "AMD" if named[1] in _AMD or group == "NG" else "NVIDIA",
        "gpu_name": sheet.get("sheet") or named[1] or UNNAMED,
        "current": "1",
    }
