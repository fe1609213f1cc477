"""Cgroups of owners that have gone, wherever they lie: other sessions made them elsewhere."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from sweeps.trial.limits.groups import remove_group
from sweeps.trial.limits.hierarchies import mount_points
from sweeps.trial.orphans.orphan import Orphan, OwnerFilter
from sweeps.trial.ownership import tag_in


def orphan_groups(of_owner: OwnerFilter) -> Iterator[Orphan]:
    """In every hierarchy that is mounted."""
    for root in mount_points() if Path("/proc/self/cgroup").exists() else ():
        for folder, children, _ in os.walk(root):
            for name in sorted(children):
                tag = tag_in(name)
                if tag and of_owner(tag):
                    group = Path(folder) / name
                    yield Orphan(
                        kind="cgroup", name=str(group), owner=tag,
                        command=f"rmdir '{group}'", remove=partial(remove_group, group),
                    )  # fmt: skip
