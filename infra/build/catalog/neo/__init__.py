"""Clouds that mainly rent GPUs: their types and prices, and facts that are assumed."""

from advisor.infra.build.catalog.neo.clouds import build, build_assumed

__all__ = ["build", "build_assumed"]
