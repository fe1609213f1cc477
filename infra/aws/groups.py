"""A security group of a sweep's own, with no rule for what comes in.

Its name is unique in a network, so that making it also shows who came first: EC2 refuses the
second one, however the answers of its lists lag.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

from advisor.errors import CloudError
from advisor.infra.aws import tags
from advisor.infra.aws.asking import Aws
from advisor.infra.aws.errors import Refused, Unanswered
from advisor.infra.aws.launch_options import Sweep
from advisor.messages import Message

_EXISTS = "InvalidGroup.Duplicate"
# Seconds in which a group that exists shows in lists.
_VISIBLE_WITHIN, _POLL = 30.0, 3.0


def own_group(aws: Aws, region: str, network: str, sweep: Sweep, expires_at: datetime) -> tuple[str, bool]:
    """The id of the sweep's group in a network, and whether this call made it."""
    described = tags.base_tags(sweep.id, sweep.owner, expires_at, sweep.budget_usd)
    try:
        answer = aws.ask(
            region,
            "create_security_group",
            GroupName=tags.name_of(sweep.id),
            Description=f"advisor sweep {sweep.id}: nothing comes in",
            VpcId=network,
            TagSpecifications=tags.specifications(described, ["security-group"]),
        )
    except Refused as refused:
        if refused.code != _EXISTS:
            raise
        group = _existing(aws, region, network, sweep)
        with suppress(Refused):  # not to be seen everywhere yet: it has an expiry of its own
            renew(aws, region, group, expires_at)
        return group, False
    return str(answer["GroupId"]), True


def renew(aws: Aws, region: str, group: str, expires_at: datetime) -> None:
    """Let the group live as long as what is in it."""
    listed = [{"Key": tags.EXPIRES_AT, "Value": tags.time_text(expires_at)}]
    aws.ask(region, "create_tags", Resources=[group], Tags=listed)


def _existing(aws: Aws, region: str, network: str, sweep: Sweep) -> str:
    filters = [
        {"Name": "group-name", "Values": [tags.name_of(sweep.id)]},
        {"Name": "vpc-id", "Values": [network]},
    ]
    waited = 0.0
    while waited <= _VISIBLE_WITHIN:
        result = aws.ask(region, "describe_security_groups", Filters=filters)
        for entry in result.get("SecurityGroups", ()):
            _refuse_strangers(entry, sweep)
            return str(entry["GroupId"])
        aws.clock.sleep(_POLL)
        waited += _POLL
    raise Unanswered("describe_security_groups", f"{tags.name_of(sweep.id)} exists, nobody sees it")


def _refuse_strangers(row: Mapping[str, Any], sweep: Sweep) -> None:
    """A group of that name may be somebody's own, with open ports, or another owner's sweep."""
    worn, group = tags.tags_from(row.get("Tags")), row["GroupId"]
    if (worn.get(tags.MANAGED), worn.get(tags.SWEEP_ID)) != (tags.MANAGED_VALUE, sweep.id):
        raise CloudError(
            "the security group {group_name} ({group}) is none of the advisor's",
            hint="nothing was launched: give another --sweep-id",
            group_name=tags.name_of(sweep.id),
            group=group,
        )
    if worn.get(tags.OWNER) != sweep.owner:
        raise CloudError(
            "sweep {sweep_id} is {owner}'s, and nothing of it was touched",
            hint=Message(
                "give another --sweep-id, or go on with it as --owner {owner}", owner=worn.get(tags.OWNER)
            ),
            sweep_id=sweep.id,
            owner=worn.get(tags.OWNER),
        )
