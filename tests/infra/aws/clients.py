"""Clients of moto's AWS."""

from __future__ import annotations

from functools import cache
from typing import Any

import boto3
import moto.core.models  # what a session asks goes through it if it was there first

assert moto.core.models
_SESSION = boto3.session.Session("testing", "testing")


@cache
def client_of(service: str, region: str = "us-east-1") -> Any:
    """Making a client takes longer than all that a test asks of it: one for all tests."""
    return _SESSION.client(service, region_name=region)
