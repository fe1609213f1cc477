"""Clouds that rent GPUs and little else: their types, prices, and what is assumed of them."""

from advisor.infra.build.catalog.neo.clouds import build, build_assumed

__all__ = ["build", "build_assumed"]
