"""A parcel as objects of S3: `s3://BUCKET/KEY`, or `s3://BUCKET/PREFIX/` for all of its files."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Any

from advisor.errors import DeliveryError, LiveError, UsageError
from advisor.runs.delivery.parcel import Enclosure, Parcel, PassingTroubleError

# Amazon S3 User Guide, "General purpose bucket naming rules".
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_MOST_KEY_BYTES = 1024
_DEFAULT_REGION = "us-east-1"


@dataclass(frozen=True, slots=True)
class BucketTarget:
    """A key, or with a slash at its end a prefix; `{date}` is the report's day.

    Credentials and region are those that boto3 finds; AWS_ENDPOINT_URL is honoured.
    """

    bucket: str
    key: str

    @property
    def label(self) -> str:
        """As it was written."""
        return f"s3://{self.bucket}/{self.key}"

    def check(self) -> None:
        """Credentials must be there; the bucket is asked when it is sent to."""
        import botocore.session

        if botocore.session.get_session().get_credentials() is None:
            raise UsageError(
                f"--send {self.label}: no AWS credentials; run `aws configure`, or set AWS_PROFILE "
                "or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            )

    def send(self, parcel: Parcel) -> None:
        """An object is whole or not there: S3 promises that of a PUT."""
        from infra.live.session import client, told_as_live_error

        region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
        try:
            s3 = client("s3", region or _DEFAULT_REGION, attempts=1)
            with told_as_live_error("S3"):
                for name, one in self._objects(parcel):
                    _put(s3, self.bucket, name, one)
        except LiveError as error:
            raise _as_trouble(error) from error

    def _objects(self, parcel: Parcel) -> list[tuple[str, Enclosure]]:
        key = parcel.dated(self.key)
        if key.endswith("/") or not key:
            return [(key + one.name, one) for one in parcel.files]
        return [(key, parcel.files[0])]


def bucket_target(text: str) -> BucketTarget:
    """'s3://BUCKET/KEY'; the key may end with a slash, or be left out."""
    match = re.fullmatch(r"s3://([^/?#@]+)(?:/(.*))?", text, re.DOTALL)
    if match is None or not _BUCKET.fullmatch(match[1]):
        raise ValueError("s3://BUCKET/KEY needs a bucket's name")
    key = match[2] or ""
    if len(key.encode()) > _MOST_KEY_BYTES or not key.isprintable():
        raise ValueError(f"a key has up to {_MOST_KEY_BYTES} bytes, without control characters")
    return BucketTarget(match[1], key)


def _put(s3: Any, bucket: str, key: str, one: Enclosure) -> None:
    s3.put_object(Bucket=bucket, Key=key, Body=one.content, ContentType=one.media_type)


def _as_trouble(error: LiveError) -> DeliveryError:
    """Throttling, outages and lost connections pass; what S3 refuses stays refused."""
    cause = error.__cause__
    answer = getattr(cause, "response", None)
    if answer is None:
        lasting = "credentials" in str(error) or "AWS_PROFILE" in str(error)
        return DeliveryError(str(error)) if lasting else PassingTroubleError(str(error))
    status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    passes = status >= 500 or status == 429 or "throttles" in str(error)
    return PassingTroubleError(str(error)) if passes else DeliveryError(str(error))
