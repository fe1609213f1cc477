"""A process that writes: `python -m tests.advisor.store.writer URL NUMBER OWN SHARED`.

Appends OWN measurements of its own and tries SHARED ones that every writer tries; prints how many of the
shared ones were its."""

import sys

from advisor.store.measurements import SqlStore
from tests.sweeps.builders import measurement, resources, trial

OWN_FROM = 1_000_000


def row(size, started_at):
    tried = trial(resources=resources(memory_mib=float(size)))
    return measurement(trial=tried, started_at=started_at, step_seconds=(0.1,) * 60)


def main(url, number, own, shared):
    store = SqlStore(url)
    first = OWN_FROM * (number + 1)
    won = 0
    for step in range(max(own, shared)):
        if step < own and not store.append_all([row(first + step, "own")]).added:
            raise SystemExit(f"row {step} of writer {number} was there already")
        if step < shared:
            won += store.append_all([row(1 + step, f"of writer {number}")]).added
    store.close()
    sys.stdout.write(str(won))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
