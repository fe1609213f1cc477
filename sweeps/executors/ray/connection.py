"""A Ray of our own, or a given cluster."""

from __future__ import annotations

import logging
import os
import secrets
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from advisor.errors import MeasuringError
from advisor.messages import Message
from advisor.sweeps.executors.ray.placing import task_options
from advisor.sweeps.trial.orphans.removing import deferred_signals
from advisor.sweeps.trial.ownership import OWNER_VARIABLE, own_tag
from advisor.sweeps.trial.placement.node import VISIBLE_GPUS

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
        _set_up_our_own(gpus)
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


def _set_up_our_own(gpus: Sequence[str]) -> None:
    os.environ.update(_SETTINGS_OF_OUR_OWN)
    # Else Ray leaves one in the home, and clusters started there later ask for it.
    os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex())
    if gpus:
        os.environ[VISIBLE_GPUS] = ",".join(gpus)


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
