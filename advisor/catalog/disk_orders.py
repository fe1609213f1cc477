"""Disks as people write them: gp3:158GiB:6000iops:250MiB/s, or less of it from the right."""

from __future__ import annotations

from collections.abc import Mapping

from advisor.catalog.disk_rules import DiskRule
from advisor.catalog.local_disks import LOCAL
from advisor.domain import DiskChoice
from advisor.errors import UsageError, unknown_name
from advisor.quantities import parse_memory_mib, parse_positive, parse_rate_mib_per_second


def parse_choice(text: str, rules: Mapping[str, DiskRule]) -> DiskChoice:
    """An order of one of the types, or of the local disk; `UsageError` names the limit it breaks.

    Sizes and provisioning are sold in whole GiB, IOPS and MiB/s.
    """
    named, *extras = text.strip().split(":")
    sizes = [part for part in extras if not _is_provisioning(part)]
    iops = [part for part in extras if part.lower().endswith("iops")]
    rates = [part for part in extras if "/" in part]
    if max(len(sizes), len(iops), len(rates)) > 1:
        raise UsageError(f"'{text}' is no disk; write it like gp3:158GiB:6000iops:250MiB/s")
    disk_type = _parse_type(named, rules)
    size_gib = parse_memory_mib(sizes[0]) / 1024 if sizes else None
    choice = DiskChoice(
        type=disk_type,
        size_gib=size_gib,
        iops=parse_positive(iops[0][:-4], "IOPS") if iops else None,
        mib_per_second=parse_rate_mib_per_second(rates[0]) if rates else None,
    )
    if disk_type != LOCAL:
        _require_sold(choice, rules[disk_type])
    elif choice.iops or choice.mib_per_second:
        raise UsageError("a local disk has the rate that it has: nothing of it can be provisioned")
    return choice


def _parse_type(text: str, rules: Mapping[str, DiskRule]) -> str:
    name = text.strip().lower()
    if name not in (*rules, LOCAL):
        raise unknown_name("disk type", text.strip(), (*rules, LOCAL), field="disk")
    return name


def _require_sold(choice: DiskChoice, rule: DiskRule) -> None:
    """Refuse what the type cannot have, as far as it can be told without a size."""
    size = choice.size_gib
    if size is not None:
        rule.require_size(size)
    rule.rate(rule.max_gib if size is None else size, choice.iops, choice.mib_per_second)
    whole = (
        (size, "GiB"),
        (choice.iops, " IOPS"),
        (choice.mib_per_second, "MiB/s"),
    )
    for amount, unit in whole:
        if amount is not None and amount != int(amount):
            raise UsageError(
                f"{rule.type} disks are sold by the whole{unit if unit[0] == ' ' else f' {unit}'}: "
                f"{int(amount)} or {int(amount) + 1}, not {amount:g}"
            )


def _is_provisioning(part: str) -> bool:
    return part.lower().endswith("iops") or "/" in part
