"""Notes on facts of an instance and its disk that were assumed."""

from __future__ import annotations

from collections.abc import Iterator

from advisor.catalog.assumed import (
    LOCAL_READ_IOPS,
    NETWORK_LIMIT,
    READ_IOPS,
    READ_MIB_S,
    SERIES,
    SERIES_CORES,
    THREADS_PER_CORE,
    USD_PER_GIB_MONTH,
)
from advisor.catalog.disk_orders import LOCAL
from advisor.domain import AssumedFact, Disk, InstanceType
from advisor.messages import Message
from advisor.questions.spec import SpecQuestion

_RATE = Message("{value:,g} MiB/s ({low:,g} to {high:,g})")
_IOPS = Message("{value:,.0f} IOPS ({low:,.0f} to {high:,.0f})")
_KINDS = {
    READ_MIB_S: _RATE,
    READ_IOPS: _IOPS,
    LOCAL_READ_IOPS: _IOPS,
    USD_PER_GIB_MONTH: Message("${value:g} a GiB-month ({low:g} to {high:g})"),
}


# GCP's Persistent Disks: pd-standard, pd-balanced, pd-ssd.
_PERSISTENT = "pd-"
_BY_SERIES = {
    SERIES: Message("RAM and cores of {name} follow its series' name, not checked"),
    SERIES_CORES: Message("cores of {name} follow its series' name, not checked"),
}


def assumed_facts(request: SpecQuestion, instance: InstanceType, disk: Disk) -> Iterator[Message]:
    """One short clause for the disk and one for the host, where anything of them is assumed."""
    if request.disk is None and not request.disk_types:
        yield from _not_compared(instance, disk)
    kind = "local" if disk.rate.type == LOCAL else disk.rate.type
    parts = [_part(fact) for fact in disk.assumed]
    if parts and all(fact.imported for fact in disk.assumed):
        yield Message(
            "{cloud}'s {kind} disk has {parts}: imported", cloud=instance.cloud, kind=kind, parts=parts
        )
    elif parts:
        yield Message(
            "{cloud}'s {kind} disk has {parts}: not known, assumed",
            cloud=instance.cloud,
            kind=kind,
            parts=parts,
        )
    for fact in instance.assumed:
        if fact.name in _BY_SERIES:
            yield Message(_BY_SERIES[fact.name].text, name=instance.name)
        if fact.name == THREADS_PER_CORE and not fact.imported:
            yield Message(
                "{cloud} sells {threads:g} vCPUs per core: not known, assumed",
                cloud=instance.cloud,
                threads=fact.value,
            )
        if fact.name == NETWORK_LIMIT and disk.rate.type != LOCAL:
            yield Message(
                "{name} passes on {limit:g} MB/s a vCPU to network disks ({low:g} to {high:g}, assumed)",
                name=instance.name,
                limit=fact.value,
                low=fact.low,
                high=fact.high,
            )


def _not_compared(instance: InstanceType, disk: Disk) -> Iterator[Message]:
    """Disks that the instance could have, and of which too little is known. Whoever names a disk
    compares none."""
    if instance.cloud == "gcp" and disk.rate.type.startswith(_PERSISTENT):
        yield Message("Hyperdisk is not compared: its rates and prices are not known here")
    if disk.rate.type != LOCAL and instance.instance_store_gib and not (instance.instance_store_read_iops):
        yield Message(
            "the local disk of {name} is not compared: its rate is not published", name=instance.name
        )


def _part(fact: AssumedFact) -> Message:
    """'200 MiB/s (120 to 480)'."""
    text = _KINDS[fact.name.rpartition(".")[2]].text
    return Message(text, value=fact.value, low=fact.low, high=fact.high)
