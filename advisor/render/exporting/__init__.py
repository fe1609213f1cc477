"""What starts a recommended spec, in the words of the tool that starts it."""

from __future__ import annotations

from collections.abc import Callable

from advisor.domain import Candidate
from advisor.errors import UsageError

FORMATS = ("skypilot", "dstack", "terraform", "ray", "awscli")


def export(candidate: Candidate, format: str) -> str:
    """The file or command, ending in a newline; `UsageError` where the tool has no such cloud."""
    writer, clouds = _writer(format)
    cloud = candidate.spec.offer.instance.cloud
    if cloud not in clouds:
        raise UsageError(
            f"--export {format} is for {', '.join(clouds)}; the answer is on {cloud}"
            + (", which SkyPilot knows: --export skypilot" if cloud in ("gcp", "azure") else "")
        )
    return writer(candidate)


def _writer(format: str) -> tuple[Callable[[Candidate], str], tuple[str, ...]]:
    """Imported when asked for: an answer without --export pays for none of them."""
    if format == "skypilot":
        from advisor.render.exporting.skypilot import CLOUDS, task

        return task, CLOUDS
    if format == "dstack":
        from advisor.render.exporting.dstack import CLOUDS, configuration

        return configuration, CLOUDS
    if format == "terraform":
        from advisor.render.exporting.terraform import configuration as terraform

        return terraform, ("aws",)
    if format == "ray":
        from advisor.render.exporting.ray_cluster import cluster

        return cluster, ("aws",)
    from advisor.render.exporting.awscli import command

    return command, ("aws",)
