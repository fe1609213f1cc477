"""How a report names specs, disks and places, in words of its language."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from advisor.render.i18n.catalogue import Texts

LOCAL_ORDER = "instance_store"


def spec_name(one: Mapping[str, Any]) -> str:
    """'g4dn.xlarge', '2 x g4dn.xlarge': of a spec, a row of one, or an end of a break-even."""
    count = one.get("count", 1)
    name = str(one["instance_type"])
    return name if count == 1 else f"{count} x {name}"


def disk_name(order: Any, t: Texts) -> str:
    """'gp3:158GiB', 'local disk'."""
    return t("disk.local") if order == LOCAL_ORDER else str(order)


def gpu_name(one: Mapping[str, Any], t: Texts) -> str:
    """'1 x T4' of a spec (with a `gpu` of its own) or of a drawn row; 'none' without."""
    gpu = one["gpu"]
    if not gpu:
        return t("gpu.none")
    known = isinstance(gpu, Mapping)
    count, name = (gpu["count"], gpu["name"]) if known else (one["gpu_count"], gpu)
    return t("gpu.of", count=count, name=name)
