"""The instance metadata service, version 2 (id, region, spot interruption), and the bucket for results.

The metadata client uses only the standard library, and never a proxy, since the address is link-local."""

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

_EXISTS = frozenset({"PreconditionFailed", "412"})
_NOT_FOUND_CODES = frozenset({"NoSuchKey", "404"})


class ResultBucket:
    """The objects under a prefix of a bucket; keys are relative to the prefix."""

    def __init__(self, aws: Aws, region: str, bucket: str, prefix: str) -> None:
        self._ask = partial(aws.ask, region, service="s3", Bucket=bucket)
        self._prefix = f"{prefix.rstrip('/')}/" if prefix else ""

    def put_once(self, key: str, content: bytes) -> bool:
        """Write an object unless its key exists; returns whether this call wrote it. After a lost answer it
        returns False, though the object is written: the retry finds it."""
        try:
            self._ask("put_object", Key=self._prefix + key, Body=content, IfNoneMatch="*")
        except Refused as refused:
            if refused.code in _EXISTS:
                return False
            raise
        return True

    def put(self, key: str, content: bytes) -> None:
        """Write an object, and replace an existing one."""
        self._ask("put_object", Key=self._prefix + key, Body=content)

    def get(self, key: str) -> bytes | None:
        """The content of an object; None if it does not exist."""
        try:
            answer = self._ask("get_object", Key=self._prefix + key)
        except Refused as refused:
            if refused.code in _NOT_FOUND_CODES:
                return None
            raise
        with as_live_errors("s3"):
            content: bytes = answer["Body"].read()
        return content

    def keys(self, beneath: str = "") -> Iterator[str]:
        """The keys that begin with `beneath`, in order."""
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
    """A client of the metadata service; it gets a token when needed, and a new one after expiry."""

    def __init__(self, address: str | None = None) -> None:
        self._address = (address or os.environ.get(ADDRESS_VARIABLE) or ADDRESS).rstrip("/")
        self._token = ""
        self._open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open

    def get(self, path: str) -> str | None:
        """The text at `/latest/<path>`; None if it does not exist, `LiveError` if the service fails."""
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
        """The region of the instance, like `us-east-1`."""
        return self.get("meta-data/placement/region") or ""

    def is_taken_back(self) -> bool:
        """Return whether there is a spot interruption notice, about two minutes before the instance ends."""
        return self.get("meta-data/spot/instance-action") is not None

    def _answer(self, path: str) -> str:
        if not self._token:
            lifetime = {"X-aws-ec2-metadata-token-ttl-seconds": str(TOKEN_SECONDS)}
            self._token = self._response("PUT", "/latest/api/token", lifetime)
        return self._response("GET", path, {"X-aws-ec2-metadata-token": self._token})

    def _response(self, method: str, path: str, headers: dict[str, str]) -> str:
        request = urllib.request.Request(self._address + path, method=method, headers=headers)
        with self._open(request, timeout=TIMEOUT_SECONDS) as answer:
            body: bytes = answer.read()
        return body.decode()
