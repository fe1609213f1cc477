"""Reports of a Ray cluster's autoscaler about trials that no node can take now."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from advisor.sweeps.executors.ray.placing import Needs, task_options

# It looks every 5 s; one that says nothing for so long has to be waited for.
_ANSWER_SECONDS = 60.0
_LOOK_SECONDS = 0.5


def has_autoscaler(ray: Any) -> bool:
    """Whether the cluster starts and ends nodes by itself. Version 1 of the autoscaler
    (RAY_UP_enable_autoscaler_v2=0) says nothing of what it cannot start, and counts as none."""
    from ray.autoscaler.v2.utils import is_autoscaler_v2

    return bool(is_autoscaler_v2(fetch_from_server=True, gcs_client=_Status(ray).gcs))


def never_started(ray: Any, kinds: Iterable[Needs]) -> list[Needs]:
    """The kinds of trials that the autoscaler has no node type for.

    It is asked about the largest ones first: what takes those takes the smaller ones. (Asked about
    many at once it would refuse what its types have no room for at the same time.)
    """
    never: list[Needs] = []
    left = set(kinds)
    while left:
        largest = [needs for needs in left if not any(_exceeds(one, needs) for one in left)]
        refused = _refused(ray, largest)
        never += refused
        given = [needs for needs in largest if needs not in refused]
        left -= set(largest)
        left = {needs for needs in left if not any(_exceeds(one, needs) for one in given)}
    return never


def _exceeds(one: Needs, other: Needs) -> bool:
    has = dict(one)
    return one != other and all(has.get(name, 0.0) >= amount for name, amount in other)


def _refused(ray: Any, kinds: Sequence[Needs]) -> list[Needs]:
    """Those that it calls infeasible: each is submitted once, as demand, and withdrawn then."""
    ask = ray.remote(max_retries=0)(_nothing)
    asked = [ask.options(**task_options(needs)).remote() for needs in kinds]
    try:
        return _Status(ray).infeasible(kinds)
    finally:
        for reference in asked:
            ray.cancel(reference, force=True)


def _nothing() -> None:
    """Demand for a node, and no work."""


class _Status:
    """The head's record of demand, and of the autoscaler's answer to it."""

    def __init__(self, ray: Any) -> None:
        from ray._raylet import GcsClient  # type: ignore[attr-defined]

        self.gcs = GcsClient(ray.get_runtime_context().gcs_address)

    def infeasible(self, kinds: Sequence[Needs]) -> list[Needs]:
        """Those of the kinds that it finds no node for at all, as soon as it has seen them all."""
        until, seen_at = time.monotonic() + _ANSWER_SECONDS, None
        shapes = {needs: frozenset(_rounded(dict(needs).items())) for needs in kinds}
        while time.monotonic() < until:
            reply = self._reply()
            demand, state = reply.cluster_resource_state, reply.autoscaling_state
            waiting: Counter[frozenset[tuple[str, float]]] = Counter()
            for one in demand.pending_resource_requests:
                waiting[_shape(one.request)] += one.count
            if seen_at is None and waiting.keys() >= set(shapes.values()):
                seen_at = demand.cluster_resource_state_version
            if seen_at is not None and state.last_seen_cluster_resource_state_version >= seen_at:
                refused = Counter(map(_shape, state.infeasible_resource_requests))
                return [n for n, shape in shapes.items() if 0 < waiting[shape] <= refused[shape]]
            time.sleep(_LOOK_SECONDS)
        return []

    def _reply(self) -> Any:
        from ray.core.generated import autoscaler_pb2

        reply = autoscaler_pb2.GetClusterStatusReply()  # type: ignore[attr-defined]
        reply.ParseFromString(self.gcs.get_cluster_status())
        return reply


def _shape(request: Any) -> frozenset[tuple[str, float]]:
    return frozenset(_rounded(request.resources_bundle.items()))


def _rounded(amounts: Iterable[tuple[str, float]]) -> Iterable[tuple[str, float]]:
    """Ray counts in ten thousandths, and leaves out what is 0."""
    return ((name, round(amount, 4)) for name, amount in amounts if amount)
