"""An instance as if it had other vCPUs or another RAM: who asks for it, and what is told."""

from __future__ import annotations

from typing import Any, NamedTuple

from advisor.answers.context import Context
from advisor.catalog.what_if import WhatIfCatalog, with_host
from advisor.domain import InstanceType
from advisor.questions.models import Predict
from advisor.units import format_mib

_FACTS = ("vcpus", "physical_cores", "memory_mib")


class WhatIf(NamedTuple):
    """A type as it is, and as it is asked about."""

    real: InstanceType
    asked: InstanceType

    def document(self) -> dict[str, Any]:
        """Each fact that is not as it is, with both values."""
        return {
            name: {"real": getattr(self.real, name), "asked": getattr(self.asked, name)}
            for name in _FACTS
            if getattr(self.real, name) != getattr(self.asked, name)
        }

    def told(self) -> str:
        """What the answer takes for granted."""
        one = self.asked
        return (
            f"{one.name} as if it had {one.vcpus} vCPUs ({one.physical_cores} cores) and "
            f"{format_mib(one.memory_mib)} RAM, GPUs, disks and links as they are: nobody sells "
            "that, so it has no price"
        )


def asked_of(context: Context, name: str, question: Predict) -> tuple[Context, WhatIf | None]:
    """The context on which the type `name` is as the question wants it (`vcpus`, `memory`);
    None, and the context itself, where that is as it is."""
    vcpus, memory_mib = question.vcpus, question.memory
    if vcpus is None and memory_mib is None:
        return context, None
    real = context.catalog.instance(name)
    asked = with_host(real, vcpus, memory_mib)
    if asked == real:
        return context, None
    return context._replace(catalog=WhatIfCatalog(context.catalog, asked)), WhatIf(real, asked)
