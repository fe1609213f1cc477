"""Sends a file into the result bucket from an instance that may have nothing but its first Python.

`user_data.sh` carries this text and runs it where a start fails: before pip, boto3 or the advisor are there.
Standard library of Python 3.8 only; the request is signed as AWS's "Signature Version 4" (IAM User Guide)
describes it, with the credentials of the instance's role.

Arguments: file, region and name of the bucket, folder of the key. The object is the end of the file,
FOLDER/INSTANCE-ID.boot.log."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import pathlib
import sys
import time
import typing
import urllib.parse
import urllib.request

MOST_BYTES = 2**18
TIMEOUT_SECONDS = 10.0
METADATA = os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://169.254.169.254")


def sent(
    url: str,
    method: str,
    headers: dict[str, str],
    body: bytes | None = None,
    through: urllib.request.BaseHandler | None = None,
) -> str:
    """The text of an answer; `OSError` where there is none."""
    request = urllib.request.Request(url, data=body, method=method, headers=headers)
    opener = urllib.request.build_opener(*([] if through is None else [through]))
    with opener.open(request, timeout=TIMEOUT_SECONDS) as answer:
        content: bytes = answer.read()
    return content.decode()


def metadata() -> typing.Callable[[str], str]:
    """A client of the metadata service that never uses a proxy."""
    direct, base = urllib.request.ProxyHandler({}), METADATA.rstrip("/") + "/latest/"
    lifetime = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
    token = sent(base + "api/token", "PUT", lifetime, through=direct)
    headers = {"X-aws-ec2-metadata-token": token}
    return lambda path: sent(base + "meta-data/" + path, "GET", headers, through=direct)


def endpoint(region: str) -> str:
    """S3's in the region."""
    suffix = ".cn" if region.startswith("cn-") else ""
    return os.environ.get("AWS_ENDPOINT_URL", f"https://s3.{region}.amazonaws.com{suffix}")


def signed(
    url: str, region: str, body: bytes, keys: dict[str, str], moment: time.struct_time
) -> dict[str, str]:
    """The headers of a PUT of `body`, by the role's `keys`, at `moment` (a UTC `struct_time`)."""
    parts, stamp = urllib.parse.urlsplit(url), time.strftime("%Y%m%dT%H%M%SZ", moment)
    scope = f"{stamp[:8]}/{region}/s3/aws4_request"
    headers = {
        "host": parts.netloc,
        "x-amz-content-sha256": hashlib.sha256(body).hexdigest(),
        "x-amz-date": stamp,
        "x-amz-security-token": keys["Token"],
    }
    names = ";".join(headers)
    lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
    digest = headers["x-amz-content-sha256"]
    canonical = f"PUT\n{parts.path}\n\n{lines}\n{names}\n{digest}"
    text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    key = ("AWS4" + keys["SecretAccessKey"]).encode()
    for part in [*scope.split("/"), text]:
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    credential = f"{keys['AccessKeyId']}/{scope}"
    headers["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders={names}, Signature={key.hex()}"
    )
    headers["content-type"] = "text/plain; charset=utf-8"
    return headers


def main(path: str, region: str, bucket: str, folder: str) -> None:
    """Send the end of the file at `path`."""
    ask = metadata()
    role = "iam/security-credentials/"
    keys = json.loads(ask(role + ask(role).split()[0]))
    body = pathlib.Path(path).read_bytes()[-MOST_BYTES:]
    key = urllib.parse.quote(f"{bucket}/{folder}/{ask('instance-id')}.boot.log")
    url = f"{endpoint(region)}/{key}"
    sent(url, "PUT", signed(url, region, body, keys, time.gmtime()), body)


if __name__ == "__main__":
    main(*sys.argv[1:])
