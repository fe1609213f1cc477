"""Objects that an instance and its controller exchange through a bucket."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from advisor.infra.aws.asking import Aws
from advisor.infra.aws.errors import Refused
from advisor.infra.live.session import as_live_errors

_THERE = frozenset({"PreconditionFailed", "412"})
_TWO_AT_ONCE = frozenset({"ConditionalRequestConflict", "409"})
_NONE = frozenset({"NoSuchKey", "404"})
_WRITES_TOGETHER = 5


class ResultBucket:
    """The objects beneath a prefix of a bucket; keys are relative to it."""

    def __init__(self, aws: Aws, region: str, bucket: str, prefix: str) -> None:
        self._aws = aws
        self._region = region
        self._bucket = bucket
        self._prefix = f"{prefix.rstrip('/')}/" if prefix else ""

    def put_once(self, key: str, content: bytes) -> bool:
        """Write it unless an object of that name is there; whether it was written now.

        An answer that got lost is asked for again, and then finds the object: False, and there.
        """
        for _ in range(_WRITES_TOGETHER):
            try:
                self._put(key, content, IfNoneMatch="*")
            except Refused as refused:
                if refused.code in _THERE:
                    return False
                if refused.code not in _TWO_AT_ONCE:
                    raise
            else:
                return True
        self._put(key, content, IfNoneMatch="*")
        return True

    def put(self, key: str, content: bytes) -> None:
        """Write it, whatever was there."""
        self._put(key, content)

    def get(self, key: str) -> bytes | None:
        """The content; None where there is no such object."""
        wanted: dict[str, Any] = {"Bucket": self._bucket, "Key": self._prefix + key}
        try:
            answer = self._aws.ask(self._region, "get_object", service="s3", **wanted)
        except Refused as refused:
            if refused.code in _NONE:
                return None
            raise
        with as_live_errors("s3"):
            content: bytes = answer["Body"].read()
        return content

    def keys(self, beneath: str = "") -> Iterator[str]:
        """The names beneath a folder, in order."""
        wanted: dict[str, Any] = {"Bucket": self._bucket, "Prefix": self._prefix + beneath}
        while True:
            answer = self._aws.ask(self._region, "list_objects_v2", service="s3", **wanted)
            for entry in answer.get("Contents", ()):
                yield entry["Key"].removeprefix(self._prefix)
            if not answer.get("NextContinuationToken"):
                return
            wanted["ContinuationToken"] = answer["NextContinuationToken"]

    def _put(self, key: str, content: bytes, **conditions: Any) -> None:
        self._aws.ask(
            self._region,
            "put_object",
            service="s3",
            Bucket=self._bucket,
            Key=self._prefix + key,
            Body=content,
            **conditions,
        )
