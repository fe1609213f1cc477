"""Writes files that start a recommended spec, in the format of the tool that reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from advisor.errors import UsageError
from advisor.messages import FieldName, Message

if TYPE_CHECKING:
    from advisor.domain import Candidate
    from advisor.render.export.parts import Start

_SEVERAL = ("aws", "gcp", "azure")
# The clouds that each tool supports.
_CLOUDS: Mapping[str, tuple[str, ...]] = {
    "skypilot": _SEVERAL,
    "dstack": _SEVERAL,
    "terraform": ("aws",),
    "ray": ("aws",),
    "awscli": ("aws",),
}
# This format runs on the machine itself, whatever its cloud.
COMPOSE = "compose"
# These formats run on nodes of a cluster, whose labels name their instance type.
ON_CLUSTERS = ("kubernetes", "kserve")
OF_SERVERS = (COMPOSE, *ON_CLUSTERS)
FORMATS = tuple(_CLOUDS)
EVERY_FORMAT = (*FORMATS, *OF_SERVERS)


def export(candidate: Candidate, format: str) -> str:
    """Return the file or command that starts a network's spec, ending in a newline. Raises `UsageError` if
    the tool lacks the cloud or only starts servers of language models."""
    if format in OF_SERVERS:
        raise UsageError(
            "{format} starts what serves a language model",
            format=format,
            field="export",
            hint=Message("for a network take one of {formats}", formats=FORMATS),
        )
    from advisor.render.export.parts import start_of

    return export_start(start_of(candidate), format)


def export_start(start: Start, format: str) -> str:
    """Return the file or command for `start`; `UsageError` if the tool does not support the cloud."""
    cloud, clouds = start.spec.offer.instance.cloud, _CLOUDS[format]
    if cloud not in clouds:
        hint = None
        if cloud in _SEVERAL:
            hint = Message("SkyPilot knows {cloud}: --export skypilot", cloud=cloud)
        elif start.run:  # a server, which a file can start on the machine itself
            hint = Message("--export {compose} starts it on any machine", compose=COMPOSE)
        else:
            hint = Message("ask for one of those clouds by {cloud}", cloud=FieldName("cloud"))
        raise UsageError(
            "--export {format} is for {clouds}; the answer is on {cloud}",
            format=format,
            clouds=clouds,
            cloud=cloud,
            hint=hint,
            field="export",
        )
    # Imported here so that an answer without --export does not load them.
    from advisor.render.export.tools import aws_command, dstack_task, ray_cluster, skypilot_task, terraform

    writers = {
        **{"skypilot": skypilot_task, "dstack": dstack_task},
        **{"terraform": terraform, "ray": ray_cluster, "awscli": aws_command},
    }
    return writers[format](start)
