"""Price lists that a user can import, a module each with the functions of `Provider`.

A list has prices of types in the bundle (`Contents.overlays`), or offers of clouds that the bundle lacks
(`Contents.rows`). Code that several providers share is in `rows`."""

from __future__ import annotations

from typing import Protocol

from advisor.catalog.catalog import Catalog
from advisor.catalog.providers import disk_prices, ec2instances, facts, gpu_hours, own_offers, skypilot
from advisor.catalog.providers.rows import Contents, PriceFile
from advisor.errors import UsageError
from advisor.messages import Message


class Provider(Protocol):
    """A module that reads the files of one source."""

    def reads(self, file: PriceFile) -> bool:
        """Return whether a file is from this source, by its columns or its JSON."""

    def contents_of(self, file: PriceFile, catalog: Catalog) -> Contents:
        """The contents of a file, checked against the data sheets and types in `catalog`. `UsageError` with
        the place and the reason for a bad row: then nothing is imported."""


# The first provider that reads a file takes it; any other CSV counts as the user's offers.
PROVIDERS: tuple[Provider, ...] = (ec2instances, gpu_hours, disk_prices, facts, skypilot, own_offers)


def provider_of(file: PriceFile) -> Provider:
    """The provider of a file; `UsageError` if none reads it."""
    for provider in PROVIDERS:
        if provider.reads(file):
            return provider
    hint = Message(
        "rows of a tracker have a provider, a GPU and a price in US dollars; "
        "ec2instances.info lists types with their pricing"
    )
    raise UsageError("this JSON is none of the price lists that can be read", hint=hint, field="file")
