"""What sweeps have left on AWS, found by its tags alone: no file and no database is asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from advisor.errors import CloudError
from infra.aws import tags
from infra.aws.asking import Aws
from infra.aws.errors import Refused
from infra.aws.permissions import reaping_refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class Managed:
    """One thing with our tags. `expires_at` None: the tag is missing, or is no time of ours; such
    a thing is told, and never removed."""

    kind: str
    id: str
    region: str
    sweep_id: str
    owner: str
    expires_at: datetime | None
    state: str = ""
    detail: str = ""

    def is_expired(self, now: datetime) -> bool:
        """Whether its time is over."""
        return self.expires_at is not None and self.expires_at <= now


@dataclass(frozen=True, slots=True)
class Kind:
    """How EC2 lists one kind of thing: the operation, where its rows are, and their fields.

    Rows in a state of `gone` are only remembered by EC2, and cost nothing.
    """

    name: str
    operation: str
    rows: str
    id_field: str
    state_field: str = ""
    detail_field: str = ""
    gone: frozenset[str] = frozenset()


KINDS = (
    Kind(
        "spot-request", "describe_spot_instance_requests", "SpotInstanceRequests",
        "SpotInstanceRequestId", "State", "Type", frozenset({"cancelled", "closed", "failed"}),
    ),
    Kind(
        "instance", "describe_instances", "Reservations", "InstanceId", "State", "InstanceType",
        frozenset({"terminated"}),
    ),
    Kind(
        "volume", "describe_volumes", "Volumes", "VolumeId", "State", "VolumeType",
        frozenset({"deleting", "deleted"}),
    ),
    Kind(
        "network-interface", "describe_network_interfaces", "NetworkInterfaces",
        "NetworkInterfaceId", "Status", "Description",
    ),
    Kind(
        "security-group", "describe_security_groups", "SecurityGroups", "GroupId", "", "GroupName"
    ),
    Kind("key-pair", "describe_key_pairs", "KeyPairs", "KeyName", "", "KeyPairId"),
    Kind(
        "launch-template", "describe_launch_templates", "LaunchTemplates", "LaunchTemplateId", "",
        "LaunchTemplateName",
    ),
)  # fmt: skip


def managed_of(aws: Aws, kind: Kind, region: str, *, owner: str | None) -> Iterator[Managed]:
    """The things of one kind that still exist; of one owner, where one is named.

    The filter is EC2's, and each row is looked at again: what is removed hangs on it.
    """
    filters = tags.managed_filters(owner=owner)
    for row in aws.pages(region, kind.operation, kind.rows, Filters=filters):
        for entry in row["Instances"] if kind.rows == "Reservations" else (row,):
            result = _managed(kind, entry, region)
            if result and result.state not in kind.gone and owner in (None, result.owner):
                yield result


def enabled_regions(aws: Aws, home: str) -> list[str]:
    """The regions that the account may use; `CloudError` where that is refused."""
    try:
        answer = aws.ask(home, "describe_regions")
    except Refused as refused:
        text = f"{reaping_refusal(refused)}; or name the regions with --region"
        raise CloudError(text) from refused
    return sorted(entry["RegionName"] for entry in answer["Regions"])


def _managed(kind: Kind, row: Mapping[str, Any], region: str) -> Managed | None:
    # Network interfaces alone have another name for theirs.
    worn = tags.tags_from(row.get("Tags") or row.get("TagSet"))
    if worn.get(tags.MANAGED) != "true":
        return None
    state = row.get(kind.state_field, "")
    return Managed(
        kind=kind.name,
        id=row[kind.id_field],
        region=region,
        sweep_id=worn.get(tags.SWEEP_ID, ""),
        owner=worn.get(tags.OWNER, ""),
        expires_at=tags.time_from(worn.get(tags.EXPIRES_AT, "")),
        state=state["Name"] if isinstance(state, Mapping) else state,
        detail=row.get(kind.detail_field, ""),
    )
