"""Offers, machines and disks, read from the bundled snapshot. Pure reading: no network."""

from advisor.catalog.catalog import Catalog, PartialOffer
from advisor.catalog.clouds import CpuOnly
from advisor.catalog.disk_rules import INSTANCE_BURST_SECONDS, DiskRule
from advisor.catalog.disks import DiskCatalog
from advisor.catalog.load import load_catalog
from advisor.catalog.prices import OfferQuery, is_accelerated
from advisor.catalog.support import Rejection, Supported, check, resources_of, used_gpus
