"""The instance metadata service, version 2: who this instance is, and whether it is taken back.

Standard library only, and never through a proxy: the address is this machine's own."""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from functools import partial
from typing import Any

from advisor.errors import LiveError
from advisor.infra.aws.asking import Aws
from advisor.infra.aws.errors import Refused
from advisor.infra.live.session import as_live_errors

_THERE = frozenset({"PreconditionFailed", "412"})
_TWO_AT_ONCE = frozenset({"ConditionalRequestConflict", "409"})
_NONE = frozenset({"NoSuchKey", "404"})
_WRITES_TOGETHER = 6


class ResultBucket:
    """The objects beneath a prefix of a bucket; keys are relative to it."""

    def __init__(self, aws: Aws, region: str, bucket: str, prefix: str) -> None:
        self._ask = partial(aws.ask, region, service="s3", Bucket=bucket)
        self._prefix = f"{prefix.rstrip('/')}/" if prefix else ""

    def put_once(self, key: str, content: bytes) -> bool:
        """Write it unless an object of that name is there; whether it was written now. An answer that got
        lost is asked for again, and then finds the object: False, and there."""
        for left in reversed(range(_WRITES_TOGETHER)):
            try:
                self._ask("put_object", Key=self._prefix + key, Body=content, IfNoneMatch="*")
            except Refused as refused:
                if refused.code in _THERE:
                    return False
                if refused.code not in _TWO_AT_ONCE or not left:
                    raise
            else:
                break
        return True

    def put(self, key: str, content: bytes) -> None:
        """Write it, whatever was there."""
        self._ask("put_object", Key=self._prefix + key, Body=content)

    def get(self, key: str) -> bytes | None:
        """The content; None where there is no such object."""
        try:
            answer = self._ask("get_object", Key=self._prefix + key)
        except Refused as refused:
            if refused.code in _NONE:
                return None
            raise
        with as_live_errors("s3"):
            content: bytes = answer["Body"].read()
        return content

    def keys(self, beneath: str = "") -> Iterator[str]:
        """The names beneath a folder, in order."""
        more: dict[str, Any] = {}
        while True:
            answer = self._ask("list_objects_v2", Prefix=self._prefix + beneath, **more)
            for entry in answer.get("Contents", ()):
                yield entry["Key"].removeprefix(self._prefix)
            if not (token := answer.get("NextContinuationToken")):
                return
            more = {"ContinuationToken": token}


ADDRESS = "http://169.254.169.254"
ADDRESS_VARIABLE = "AWS_EC2_METADATA_SERVICE_ENDPOINT"  # the one that botocore honours
TOKEN_SECONDS = 21_600
TIMEOUT_SECONDS = 2.0
_TRIES = 3
_UNAUTHORIZED, _NOT_FOUND = 401, 404


class Metadata:
    """The service at an address; a token is taken when it is needed, and again when it is over."""

    def __init__(self, address: str | None = None) -> None:
        named = address or os.environ.get(ADDRESS_VARIABLE) or ADDRESS
        self._address = named.rstrip("/")
        self._token = ""
        self._open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open

    def get(self, path: str) -> str | None:
        """The text at `/latest/<path>`; None if absent, `LiveError` unless version 2 answers."""
        reason = ""
        for _ in range(_TRIES):
            try:
                return self._answer(f"/latest/{path}")
            except urllib.error.HTTPError as error:
                error.close()
                if error.code == _NOT_FOUND:
                    return None
                if error.code == _UNAUTHORIZED:
                    self._token = ""
                reason = f"status {error.code}"
            except (OSError, ValueError) as error:
                reason = str(error)
        raise LiveError(f"no instance metadata at {self._address} ({reason})", hint="is this EC2?")

    def instance_id(self) -> str:
        """The instance's id, like `i-0123456789abcdef0`."""
        return self.get("meta-data/instance-id") or ""

    def region(self) -> str:
        """The region of the instance, as `us-east-1`."""
        return self.get("meta-data/placement/region") or ""

    def is_taken_back(self) -> bool:
        """Whether the spot market takes the instance back, about two minutes before it does; whatever the
        notice says."""
        return self.get("meta-data/spot/instance-action") is not None

    def _answer(self, path: str) -> str:
        if not self._token:
            lifetime = {"X-aws-ec2-metadata-token-ttl-seconds": str(TOKEN_SECONDS)}
            self._token = self._sent("PUT", "/latest/api/token", lifetime)
        return self._sent("GET", path, {"X-aws-ec2-metadata-token": self._token})

    def _sent(self, method: str, path: str, headers: dict[str, str]) -> str:
        request = urllib.request.Request(self._address + path, method=method, headers=headers)
        with self._open(request, timeout=TIMEOUT_SECONDS) as answer:
            body: bytes = answer.read()
        return body.decode()
