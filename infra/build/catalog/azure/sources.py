"""What is known of Azure, and from where."""

from __future__ import annotations

from advisor.infra.build.catalog.provenance import LIST_DAYS, SPOT_DAYS, Source
from advisor.infra.build.catalog.wide import Basis

_RADAR = "andy-diericks/azure-pricing-radar@cf741f25 (Azure Retail Prices API; LRS)"

PRICES = Source(
    "azure-62ff0a98",
    "2026-05-20",
    "none (published prices)",
    "anycloud-sh/catalog@62ff0a98 (Azure Retail Prices API)",
    "Azure prices",
    LIST_DAYS,
)
SPOT = Source(
    "azure-spot-62ff0a98",
    "2026-05-20",
    "none (published prices)",
    "anycloud-sh/catalog@62ff0a98 (Azure Retail Prices API; spot)",
    "Azure spot prices",
    SPOT_DAYS,
)
GPU_PRICES = Source(
    "azure-352646f5",
    "2026-06-18",
    "Apache-2.0",
    "Azure/karpenter-provider-azure@352646f5 (Azure price list)",
    "Azure prices of GPU sizes",
    LIST_DAYS,
)
SIZES = Source(
    "azure-sizes",
    "2026-05-20",
    "plain facts",
    "names of sizes in Azure's price list; what a series has as recalled and not checked",
    "Azure sizes by series (not checked)",
)
GPU_SIZES = Source(
    "azure-gpu-sizes",
    "2026-01-27",
    "CC BY-SA 4.0",
    "SpareCores/sc-data-dumps@e8749bef (Azure SKUs API); anycloud-sh/catalog@62ff0a98; "
    "MicrosoftDocs/azure-compute-docs",
    "Azure GPU sizes",
)
DISK_RULES = Source(
    "azure-disk-rules",
    "2023-03-01",
    "CC BY 4.0",
    "MicrosoftDocs/azure-docs@1d25717f; MicrosoftDocs/azure-compute-docs@18c531ec",
    "Azure disk types",
)
DISK_PRICES = Source("azure-disks-cf741f25", "2026-08-22", "MIT", _RADAR, "Azure disk prices", LIST_DAYS)
ESTIMATED_DISKS = Source(
    "azure-disks-estimated",
    "2026-08-22",
    "MIT",
    f"westeurope's price by {_RADAR} x how dear instances are in the region",
    "Azure disk prices (estimated)",
    LIST_DAYS,
    "prices of Azure's disks are known in five regions of the EU and estimated elsewhere",
)
SOURCES = (PRICES, SPOT, GPU_PRICES, SIZES, GPU_SIZES, DISK_RULES, DISK_PRICES, ESTIMATED_DISKS)

LIST = Basis("azure", "list", "USD", PRICES.id)
GPU_LIST = Basis("azuregpu", "list", "USD", GPU_PRICES.id)
OBSERVED = Basis("azurespot", "observed", "USD", SPOT.id)
BASES = (LIST, GPU_LIST, OBSERVED)
