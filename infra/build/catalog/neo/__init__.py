"""Clouds that rent GPUs and little else: their types, prices, and what is assumed of them."""

from advisor.infra.build.catalog.neo.clouds import build
from advisor.infra.build.catalog.neo.disks import build_assumed

__all__ = ["build", "build_assumed"]
