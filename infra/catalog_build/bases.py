"""Every way in which the bundle's prices are known."""

from __future__ import annotations

from infra.catalog_build import provenance
from infra.catalog_build.wide import Basis

AWS_LIST = Basis("list", "on-demand", "list", "USD", provenance.PRICES.id)
AWS_SPOT = Basis("spot", "spot", "estimated", "USD", provenance.SPOT.id)
AWS_REGIONAL = Basis("regional", "on-demand", "estimated", "USD", provenance.REGIONAL.id)
AWS_REGIONAL_SPOT = Basis("regspot", "spot", "estimated", "USD", provenance.REGIONAL_SPOT.id)
GCP = {
    "on-demand": Basis("gcp", "on-demand", "list", "USD", provenance.GCP.id),
    "spot": Basis("gcpspot", "spot", "observed", "USD", provenance.GCP.id),
    "month-1y": Basis("gcp1y", "commitment-1y", "list", "USD", provenance.GCP.id),
    "month-3y": Basis("gcp3y", "commitment-3y", "list", "USD", provenance.GCP.id),
}
AZURE = {"on-demand": Basis("azure", "on-demand", "list", "USD", provenance.AZURE.id)}
ALIBABA = {
    "on-demand": Basis("ali", "on-demand", "list", "CNY", provenance.ALIBABA.id),
    "spot": Basis("alispot", "spot", "observed", "CNY", provenance.ALIBABA.id),
}
ALL = (
    *(AWS_LIST, AWS_SPOT, AWS_REGIONAL, AWS_REGIONAL_SPOT),
    *(*GCP.values(), *AZURE.values(), *ALIBABA.values()),
)
