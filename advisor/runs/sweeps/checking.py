"""Whether a sweep can be planned at all, wherever and whenever it will run."""

from __future__ import annotations

from dataclasses import replace

from advisor.domain import Trial
from advisor.runs.sweeps.data import planned_data
from advisor.runs.sweeps.sweeping import SweepOptions, plan_sweep

_SOMEWHERE = "somewhere"


def plan_anywhere(options: SweepOptions) -> list[Trial]:
    """The trials as a machine would plan them that has whatever they need, on the data as far as
    they are known here; `UsageError` for what every machine would refuse, as a mistyped network.
    """
    anywhere = replace(options, ray_address=options.ray_address or _SOMEWHERE)
    return plan_sweep(anywhere, planned_data(anywhere))
