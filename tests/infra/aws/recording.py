"""Which API calls the code makes, as IAM names their actions."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import botocore.client

# Where IAM's prefix is not the service's name, or its action not the operation's.
_PREFIXES = {"service-quotas": "servicequotas"}
_ACTIONS = {"s3:ListObjectsV2": "s3:ListBucket", "s3:HeadObject": "s3:GetObject"}


Calls = list[tuple[str, Mapping[str, Any]]]


def actions(calls: Calls) -> set[str]:
    """What was asked for, however often."""
    return {action for action, _ in calls}


@contextmanager
def recorded_calls(monkeypatch) -> Iterator[Calls]:
    """Action and request of all calls of all clients meanwhile, answered or not."""
    seen: Calls = []
    ask = botocore.client.BaseClient._make_api_call

    def noting(client, operation, request):
        seen.append((action_of(client.meta.service_model.service_name, operation), request))
        return ask(client, operation, request)

    with monkeypatch.context() as patch:
        patch.setattr(botocore.client.BaseClient, "_make_api_call", noting)
        yield seen


def action_of(service: str, operation: str) -> str:
    """('ec2', 'RunInstances') -> 'ec2:RunInstances'."""
    name = f"{_PREFIXES.get(service, service)}:{operation}"
    return _ACTIONS.get(name, name)
