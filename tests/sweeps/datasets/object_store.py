"""A real S3 server on loopback (moto), and buckets in it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import boto3
from moto.moto_server.threaded_moto_server import ThreadedMotoServer

BUCKET = "photos"
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}


@contextmanager
def object_store() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        yield "http://{}:{}".format(*server.get_host_and_port())
    finally:
        server.stop()


def client(url: str):
    return boto3.client(
        "s3",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="testing",
        aws_secret_access_key="testing",
    )


def put(url: str, files: dict[str, bytes], bucket: str = BUCKET) -> None:
    s3 = client(url)
    s3.create_bucket(Bucket=bucket)
    for key, content in files.items():
        s3.put_object(Bucket=bucket, Key=key, Body=content)
