"""Writes offers and instance types of the catalogue as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from advisor.catalog import INSTANCE_BURST_SECONDS, Catalog, PartialOffer, Rejection, check
from advisor.catalog.clouds import why_closed
from advisor.catalog.instances import PartialType
from advisor.domain import AssumedFact, InstanceType, Offer
from advisor.domain.money import NotOrderable
from advisor.render.records import fields, instance_block, notes_text, price_block

SCHEMA = "advisor.catalog/1"
TYPE_SCHEMA = "advisor.instance-type/1"


def offer_order(offer: Offer | PartialOffer) -> tuple[float, str, str, str, str]:
    """Return the sort key of an offer: cheapest first. It is unique, so the order is fixed."""
    facts = offer.instance if isinstance(offer, Offer) else offer.type
    return offer.price.usd_per_hour, facts.cloud, offer.region, facts.name, str(offer.market)


def catalog_head(known: Catalog) -> dict[str, Any]:
    """Return the first fields of a list of offers."""
    return {"schema": SCHEMA, "as_of": known.as_of.isoformat(), "sources": list(known.sources)}


def offer_document(offer: Offer | PartialOffer, currency: str = "USD") -> dict[str, Any]:
    """Return one offer as JSON; `missing` names its unknown facts. `currency` is as in `price_block`."""
    facts = offer.instance if isinstance(offer, Offer) else offer.type
    place = {"cloud": facts.cloud, "region": offer.region, "market": str(offer.market)}
    if isinstance(offer, Offer):
        return {
            **place,
            **instance_block(offer.instance),
            "price": price_block(offer.price, currency),
            "not_orderable": str(why_closed(offer.closed)) if offer.closed else None,
            "missing": [],
        }
    return {
        **place,
        **_partial_block(offer.type),
        "physical_cores": None,
        "price": price_block(offer.price),
        "not_orderable": None,
        "missing": list(offer.type.missing),
    }


def _partial_block(facts: PartialType) -> dict[str, Any]:
    gpu = {"name": facts.gpu_name, "count": facts.gpu_count, "memory_mib": facts.gpu_memory_mib}
    return {
        "instance_type": facts.name,
        "gpu": gpu if facts.gpu_name else None,
        **fields(facts, "vcpus memory_mib"),
    }


def type_document(known: Catalog, name: str, cloud: str) -> dict[str, Any]:
    """Return all facts about a type except its prices."""
    facts, closures = known.partial_type(name, cloud), known.order_restrictions(name, cloud)
    orderable = {"not_orderable": not_orderable(closures), "regions": list(known.regions_of(name, cloud))}
    if facts.missing:
        return {
            "schema": TYPE_SCHEMA,
            "cloud": cloud,
            **_partial_block(facts),
            "ranked": False,
            "remark": f"not known of it: {', '.join(facts.missing)}",
            **orderable,
        }
    instance = known.instance(name, cloud)
    closed = next((closure for closure in closures if not (closure.market or closure.region)), None)
    needs_gpu = instance.gpu_name is not None
    verdict = check(instance, known.gpu_of(instance), needs_gpu=needs_gpu, closed=closed)
    remark = str(verdict.detail) if isinstance(verdict, Rejection) else notes_text(verdict.notes)
    if instance.accelerator and not isinstance(verdict, Rejection):
        unused = f"ranked without its accelerator ({instance.accelerator}), which does not run CUDA"
        remark = "; ".join(filter(None, (f"{unused}: for preprocessing", remark)))
    return {
        "schema": TYPE_SCHEMA,
        "cloud": instance.cloud,
        **instance_block(instance),
        "accelerator": instance.accelerator,
        **_machine(instance),
        "ranked": not isinstance(verdict, Rejection),
        "remark": remark,
        **orderable,
        "as_of": instance.as_of.isoformat(),
        "source": instance.source,
        "assumed": {fact.name: assumed_block(fact) for fact in instance.assumed},
    }


def not_orderable(closures: Sequence[NotOrderable]) -> dict[str, dict[str, Any]]:
    """Return why a type cannot be ordered, since when and by which source, by market and region ("any")."""
    return {
        f"{closure.market or 'any'} {closure.region}".strip(): {
            "status": closure.status,
            "why": str(why_closed(closure)),
            "as_of": str(closure.as_of),
            "source": closure.source,
        }
        for closure in closures
    }


def assumed_block(fact: AssumedFact) -> dict[str, Any]:
    """Return an assumed fact: its range in 9 of 10 cases, the reason, and whether the user set it."""
    return fields(fact, "value low high why") | {"imported": fact.imported}


def assumed_text(assumed: dict[str, Any]) -> str:
    """'2 (1 to 2): most clouds sell hardware threads'; a fact that is no number has only the reason."""
    value, low, high = (f"{assumed[end]:,.10g}" for end in ("value", "low", "high"))
    sure = f"{value}: " if assumed["imported"] else ""
    return (sure if low == high else f"{value} ({low} to {high}): ") + str(assumed["why"])


def _machine(instance: InstanceType) -> dict[str, Any]:
    threaded = instance.vcpus > instance.physical_cores
    sustained, burst = instance.ebs_baseline_mib_per_second, instance.ebs_burst_mib_per_second
    return {
        "cpu": {
            **fields(instance.cpu, "model architecture single_thread_score"),
            "score_basis": instance.cpu_score_basis or None,
            # 0 if a vCPU is a whole core; null if nobody measured what second threads add.
            "second_thread_yield": instance.cpu.second_thread_yield or (None if threaded else 0.0),
        },
        "network_disks": {
            "baseline_mib_per_second": sustained,
            "baseline_iops": instance.ebs_baseline_iops,
            "burst_mib_per_second": burst,
            "burst_iops": instance.ebs_burst_iops,
            "burst_seconds": INSTANCE_BURST_SECONDS if (burst or 0.0) > (sustained or 0.0) else None,
        },
        "local_disk": {
            "size_gib": instance.instance_store_gib,
            "read_iops": instance.instance_store_read_iops,
        },
        "host_to_gpu_gb_per_second": instance.host_to_gpu_gb_per_second,
        # The network to other instances; null if its speed is not published.
        "network": instance.network and fields(instance.network, "gbit_per_second cards source"),
    }
