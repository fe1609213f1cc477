"""Clouds that rent GPUs and little else: their types, prices, and what is assumed of them."""

from advisor.infra.catalog_build.neo.clouds import build
from advisor.infra.catalog_build.neo.disks import build_assumed

__all__ = ["build", "build_assumed"]
