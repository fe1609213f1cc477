"""A Ray of our own or a given cluster, and what its autoscaler is asked for."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from advisor.errors import MeasuringError
from advisor.messages import Message
from advisor.sweeps.run.ray.placing import Needs, task_options
from advisor.sweeps.trial.node import VISIBLE_GPUS
from advisor.sweeps.trial.orphan_removal import deferred_signals
from advisor.sweeps.trial.ownership import OWNER_VARIABLE, own_tag

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
        largest = [needs for needs in left if not any(_exceeds(larger, needs) for larger in left)]
        refused = _refused(ray, largest)
        never += refused
        given = [needs for needs in largest if needs not in refused]
        left -= set(largest)
        left = {needs for needs in left if not any(_exceeds(largest_needs, needs) for largest_needs in given)}
    return never


def _exceeds(needs: Needs, other: Needs) -> bool:
    has = dict(needs)
    return needs != other and all(has.get(name, 0.0) >= amount for name, amount in other)


def _refused(ray: Any, kinds: Sequence[Needs]) -> list[Needs]:
    """Those that it calls infeasible: each is submitted once, as demand, and withdrawn then."""
    ask = ray.remote(max_retries=0)(lambda: None)
    answers = [ask.options(**task_options(needs)).remote() for needs in kinds]
    try:
        return _Status(ray).infeasible(kinds)
    finally:
        for reference in answers:
            ray.cancel(reference, force=True)


class _Status:
    """The head's record of demand, and of the autoscaler's answer to it."""

    def __init__(self, ray: Any) -> None:
        from ray._raylet import GcsClient  # type: ignore[attr-defined]

        self.gcs = GcsClient(ray.get_runtime_context().gcs_address)

    def infeasible(self, kinds: Sequence[Needs]) -> list[Needs]:
        """Those of the kinds that it finds no node for at all, as soon as it has seen them all."""
        from ray.core.generated import autoscaler_pb2

        until, seen_at = time.monotonic() + _ANSWER_SECONDS, None
        shapes = {needs: frozenset(_rounded(dict(needs).items())) for needs in kinds}
        while time.monotonic() < until:
            reply = autoscaler_pb2.GetClusterStatusReply()  # type: ignore[attr-defined]
            reply.ParseFromString(self.gcs.get_cluster_status())
            demand, state = reply.cluster_resource_state, reply.autoscaling_state
            waiting: Counter[frozenset[tuple[str, float]]] = Counter()
            for request in demand.pending_resource_requests:
                waiting[_shape(request.request)] += request.count
            if seen_at is None and waiting.keys() >= set(shapes.values()):
                seen_at = demand.cluster_resource_state_version
            if seen_at is not None and state.last_seen_cluster_resource_state_version >= seen_at:
                refused = Counter(map(_shape, state.infeasible_resource_requests))
                return [n for n, shape in shapes.items() if 0 < waiting[shape] <= refused[shape]]
            time.sleep(_LOOK_SECONDS)
        return []


def _shape(request: Any) -> frozenset[tuple[str, float]]:
    return frozenset(_rounded(request.resources_bundle.items()))


def _rounded(amounts: Iterable[tuple[str, float]]) -> Iterable[tuple[str, float]]:
    """Ray counts in ten thousandths, and leaves out what is 0."""
    return ((name, round(amount, 4)) for name, amount in amounts if amount)


_CONNECT_SECONDS = 5.0
_START_ATTEMPTS = 3
_OBJECT_STORE_BYTES = 80 * 2**20  # measurements are small; Ray's default is 30 % of memory
_SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # Unlimited by default; and a trial beyond its memory is a result, not a reason to repeat.
    "RAY_task_oom_retries": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    # A worker goes on with the next trial of the same needs for so long, without being placed anew,
    # which takes the nodes 20 ms of CPU time (Ray's default is half a second).
    "RAY_worker_lease_timeout_milliseconds": "10000",
}
_SETTINGS_OF_OUR_OWN = {
    # Nobody else's, so on loopback: Ray asks this on Linux too, once, when it is imported.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_prestart_worker_first_driver": "0",  # else a process for each CPU
}


def connected(address: str | None, has: Mapping[str, float] | None = None, gpus: Sequence[str] = ()) -> Any:
    """Ray, connected to the cluster, or to a new one on this machine that ends with us, declares
    what the machine has for trials and hands out these GPUs (by UUID)."""
    os.environ.update(_SETTINGS)
    if not address:
        os.environ.update(_SETTINGS_OF_OUR_OWN)
        # Else Ray leaves one in the home, and clusters started there later ask for it.
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex())
        os.environ.update({VISIBLE_GPUS: ",".join(gpus)} if gpus else {})
    try:
        import ray
    except ImportError as error:
        raise MeasuringError(
            "Ray is not installed", hint="install the extra 'sweep', or use --executor process"
        ) from error
    if address:
        _refuse_unreachable(address)
    options = {"address": address} if address else _own_ray(has or {})
    for remaining in reversed(range(_START_ATTEMPTS)):
        try:
            # Above errors: the loss of a node is reported by us, and not with Ray's state dump.
            with deferred_signals():
                ray.init(**options, logging_level=logging.CRITICAL, log_to_driver=False)
            return ray
        except KeyboardInterrupt:
            ray.shutdown()
            raise
        # On a busy machine a part of Ray may miss a deadline of Ray's own (15 s for its agent),
        # and that comes as a bare Exception.
        except Exception as error:
            ray.shutdown()
            if not remaining:
                raise _no_ray(address, error) from error
    raise AssertionError("unreachable")


def _own_ray(has: Mapping[str, float]) -> dict[str, Any]:
    options = task_options(tuple(has.items()))
    root = str(Path(__file__).parents[4])
    return {
        "address": "local",  # else Ray joins a cluster that happens to run here, or RAY_ADDRESS
        "include_dashboard": False,
        "dashboard_host": "127.0.0.1",  # were it ever switched on
        "_memory": options.pop("memory"),
        **options,
        "object_store_memory": _OBJECT_STORE_BYTES,
        "runtime_env": {"env_vars": {"PYTHONPATH": root, OWNER_VARIABLE: str(own_tag())}},
    }


def _no_ray(address: str | None, error: Exception) -> MeasuringError:
    where = f"connect to Ray at '{address}'" if address else "start Ray"
    text = " ".join(str(error).split())[:200]
    hint = "try on a quieter machine, or with"
    if address:
        hint = "check --ray-address, or use"
        if not os.environ.get("RAY_AUTH_MODE"):
            # Ray 2.60's error does not say that the cluster asks for a token; stderr does.
            hint = "set RAY_AUTH_MODE=token if InvalidAuthToken stands above, " + hint
    return MeasuringError(
        "cannot {where} ({text})",
        hint=Message("{hint_text} --executor process", hint_text=hint),
        where=where,
        text=text,
    )


def _refuse_unreachable(address: str) -> None:
    """Ray itself tries for minutes, and fills the screen meanwhile."""
    if address.startswith("ray://"):
        raise MeasuringError(
            "--ray-address {address}: Ray Client does not report when a trial begins",
            hint="stand on a node of the cluster and give HOST:6379, or auto",
            address=address,
        )
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit():
        return  # `auto`, and what else Ray may understand
    try:
        socket.create_connection((host, int(port)), timeout=_CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise MeasuringError(
            "nothing answers at --ray-address {address} ({error})",
            hint="start the cluster, or use --executor process",
            address=address,
            error=error,
        ) from error
