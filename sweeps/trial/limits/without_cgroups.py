"""What can be held where no cgroup may be made: CPUs by affinity, or nothing at all."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from advisor.domain import MIB, LimitedBy
from sweeps.trial.limits.types import LimitRequest
from sweeps.trial.limits.usage import PROCESS_TREE


class Affinity:
    """Holds whole vCPUs by CPU affinity and private memory by RLIMIT_DATA.

    Page cache and disk rates are not held: when those, or a fraction of a vCPU, are asked
    for, the hold says `none`, and the measurement is never fitted.
    """

    @contextmanager
    def hold(self, request: LimitRequest) -> Iterator[AffinityHold]:
        """Nothing is left behind: affinity and limits go with the process."""
        yield AffinityHold(request)


class AffinityHold:
    """See `types.ResourceLimits`. Affinity set before threads start is inherited by them,
    so CPUs are pinned in `add` already."""

    def __init__(self, request: LimitRequest) -> None:
        self._request = request

    @property
    def limited_by(self) -> LimitedBy:
        """`affinity` where it holds what was asked, else `none`."""
        whole = self._request.vcpus == len(self._request.cpus)
        return LimitedBy.AFFINITY if whole and not self._request.limits_disk else LimitedBy.NONE

    def add(self, pid: int) -> None:
        """Pin the process and limit its private memory."""
        os.sched_setaffinity(pid, self._request.cpus)
        size = int(self._request.memory_mib * MIB)
        resource.prlimit(pid, resource.RLIMIT_DATA, (size, size))

    def engage(self) -> None:
        """All that can be held is held already."""

    def usage_source(self) -> Mapping[str, Any]:
        """The process tree."""
        return {"kind": PROCESS_TREE}

    def killed_for_memory(self) -> bool:
        """Beyond RLIMIT_DATA an allocation fails; nobody is killed."""
        return False


class WholeMachine:
    """For trials that ask for the whole machine: nothing to hold, all is allowed."""

    limited_by = LimitedBy.HOST

    @contextmanager
    def hold(self, request: LimitRequest) -> Iterator[UnlimitedHold]:  # noqa: ARG002
        """Marks the trial; holds nothing."""
        yield UnlimitedHold(self.limited_by)


class Unlimited(WholeMachine):
    """Asked for limits and not able to hold them: the measurement says so."""

    limited_by = LimitedBy.NONE


class UnlimitedHold:
    """See `sweeps.trial.limits.types.ResourceLimits`."""

    def __init__(self, limited_by: LimitedBy) -> None:
        self._limited_by = limited_by

    @property
    def limited_by(self) -> LimitedBy:
        """`host` or `none`."""
        return self._limited_by

    def add(self, pid: int) -> None:
        """Nothing to do."""

    def engage(self) -> None:
        """Nothing to do."""

    def usage_source(self) -> Mapping[str, Any]:
        """The process tree."""
        return {"kind": PROCESS_TREE}

    def killed_for_memory(self) -> bool:
        """The whole machine's memory has no group to ask."""
        return False
