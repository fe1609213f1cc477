"""Cgroups of owners that have gone, wherever they lie: other sessions made them elsewhere."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from sweeps.trial.limits.groups import remove_group
from sweeps.trial.limits.hierarchies import mount_points
from sweeps.trial.marks import mark_in
from sweeps.trial.orphans.words import Asked, Leftover


def left_groups(asked: Asked) -> Iterator[Leftover]:
    """In every hierarchy that is mounted."""
    for root in mount_points() if Path("/proc/self/cgroup").exists() else ():
        for folder, children, _ in os.walk(root):
            for name in sorted(children):
                mark = mark_in(name)
                if mark and asked(mark):
                    group = Path(folder) / name
                    yield Leftover(
                        kind="cgroup", name=str(group), owner=mark,
                        command=f"rmdir '{group}'", remove=partial(remove_group, group),
                    )  # fmt: skip
