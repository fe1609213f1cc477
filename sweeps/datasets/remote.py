"""Reads data sets at an address: S3 by boto3, other stores by fsspec if that is installed.

fsspec reads S3 by `s3fs`, which pins another botocore than boto3 does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any, Protocol
from urllib.parse import urlsplit

from msgspec import Struct

from advisor.errors import AdvisorError, DataError, UsageError
from advisor.extras import install_hint
from advisor.messages import Message

PART_BYTES = 1 << 20
S3 = "s3"
_CONNECTIONS = 16
_TRIES = 5
# For S3's codes and the errors of file systems: the class, text and hint of the error that users see.
_REFUSALS: dict[tuple[str, ...], tuple[type[AdvisorError], str, str]] = {
    ("NoSuchBucket", "404", "FileNotFoundError"): (
        UsageError,
        "there is nothing at {address}",
        "compare the address with what your store lists, and AWS_ENDPOINT_URL where the store is not AWS's",
    ),
    ("403", "AccessDenied", "AllAccessDisabled", "InvalidObjectState", "PermissionError"): (
        DataError,
        "{address} may not be read with these credentials",
        "ask for the right to list and read it (s3:ListBucket, s3:GetObject), or sign in as who has it",
    ),
    ("PreconditionFailed", "412"): (
        DataError,
        "files at {address} change while they are brought",
        "run the command again when they are complete",
    ),
    ("InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken"): (
        DataError,
        "the credentials for {address} are not valid ({reason})",
        "sign in again (`aws sso login`, `aws configure`)",
    ),
}


class RemoteFile(Struct, frozen=True):
    """A remote file: its path below the address, its key in the store, and a tag that changes with the
    content (usually its MD5; empty if the store has none)."""

    path: str
    key: str
    size: int
    tag: str = ""


class RemoteFolder(Protocol):
    """A folder at an address. All methods raise `AdvisorError` with a hint."""

    @property
    def store(self) -> str:
        """The identity of the store, if the address does not include it."""

    def files(self, only: str = "") -> Iterator[RemoteFile]:
        """All files in any order, or those whose paths begin with `only`."""

    def read(self, file: RemoteFile) -> Iterator[bytes]:
        """The content of a file, in parts."""


def is_address(text: str) -> bool:
    """True if the text is an address (s3://bucket/prefix) and not a local path."""
    return "://" in text


def name_of(address: str) -> str:
    """The last part of an address, the name of its local copy."""
    name = PurePosixPath(address.partition("://")[2]).name
    if not name or name in (".", ".."):
        raise UsageError(f"'{address}' names no data set", hint="write s3://BUCKET/PREFIX")
    return name


def remote_folder(address: str) -> RemoteFolder:
    """The folder at an address. Raises `UsageError` if the address names no data set."""
    name_of(address)
    scheme, _, path = address.partition("://")
    if scheme == S3:
        bucket, _, prefix = path.strip("/").partition("/")
        return S3Folder(address, bucket, prefix)
    return FsspecFolder(address)


class S3Folder(Struct, frozen=True, dict=True):
    """The objects whose keys begin with `prefix/`, or the object `prefix`."""

    address: str
    bucket: str
    prefix: str

    @property
    def store(self) -> str:
        """The endpoint; "" for AWS, where a bucket's name is unique."""
        with _read_errors(self.address):
            endpoint = str(self._client.meta.endpoint_url)
        return "" if (urlsplit(endpoint).hostname or "").endswith(".amazonaws.com") else endpoint

    def files(self, only: str = "") -> Iterator[RemoteFile]:
        prefix = "/".join(filter(None, (self.prefix, only)))
        with _read_errors(self.address):
            pages = self._client.get_paginator("list_objects_v2")
            for page in pages.paginate(Bucket=self.bucket, Prefix=prefix):
                for entry in page.get("Contents", ()):
                    path = _path_below(entry["Key"], self.prefix)
                    if path:
                        yield RemoteFile(path, entry["Key"], entry["Size"], entry["ETag"].strip('"'))

    def read(self, file: RemoteFile) -> Iterator[bytes]:
        """The content of a file, in parts. Raises `AdvisorError` if it changed since it was listed."""
        with _read_errors(self.address):
            body = self._client.get_object(Bucket=self.bucket, Key=file.key, IfMatch=f'"{file.tag}"')["Body"]
            yield from body.iter_chunks(PART_BYTES)

    @cached_property
    def _client(self) -> Any:
        import boto3
        from botocore import UNSIGNED
        from botocore.config import Config

        session = boto3.Session()
        config = Config(
            retries={"mode": "standard", "max_attempts": _TRIES},
            max_pool_connections=_CONNECTIONS,
            # Public buckets can be read without an account.
            **({} if session.get_credentials() else {"signature_version": UNSIGNED}),
        )
        return session.client("s3", config=config)


class FsspecFolder(Struct, frozen=True, dict=True):
    """The files beneath an address of any file system that fsspec knows."""

    address: str
    store = ""

    def files(self, only: str = "") -> Iterator[RemoteFile]:
        system, root = self._opened
        with _read_errors(self.address):
            facts = system.info(root)
            if facts["type"] == "file":
                yield _remote_file(root.rpartition("/")[2], root, facts)
                return
            if only:
                if system.isfile(f"{root}/{only}"):
                    yield _remote_file(only, f"{root}/{only}", system.info(f"{root}/{only}"))
                return
            # Folder by folder: a list of all files of a large data set takes gigabytes, and `walk` of fsspec
            # leaves out folders that it cannot list.
            folders = [root]
            while folders:
                directory = folders.pop()
                for facts in system.ls(directory, detail=True):
                    key = facts["name"].rstrip("/")
                    if facts["type"] != "directory":
                        yield _remote_file(key.removeprefix(root).lstrip("/"), key, facts)
                    elif key != directory:  # some stores list a folder in itself
                        folders.append(key)

    def read(self, file: RemoteFile) -> Iterator[bytes]:
        system, _ = self._opened
        with _read_errors(self.address), system.open(file.key, "rb") as opened:
            while part := opened.read(PART_BYTES):
                yield part

    @cached_property
    def _opened(self) -> tuple[Any, str]:
        scheme = self.address.partition("://")[0]
        try:
            import fsspec

            system, root = fsspec.core.url_to_fs(self.address, use_listings_cache=False)
        except ImportError as error:
            raise UsageError(
                f"{scheme}:// cannot be read here ({error})",
                field="data",
                hint=f"{install_hint('data')}, and the package that is named",
            ) from error
        except ValueError as error:
            raise UsageError(
                f"{self.address} is no address that can be read",
                field="data",
                hint=Message("s3://, gs://, file:// and others of fsspec are taken"),
            ) from error
        except Exception as error:  # every file system raises another class for missing credentials
            raise _unreachable(self.address, error) from error
        return system, root.rstrip("/")


def _remote_file(path: str, key: str, facts: dict[str, Any]) -> RemoteFile:
    tags = (facts.get(name) for name in ("ETag", "etag", "md5Hash", "mtime", "LastModified"))
    return RemoteFile(path, key, int(facts["size"]), str(next(filter(None, tags), "")).strip('"'))


def _path_below(key: str, prefix: str) -> str:
    """The key's path below the prefix; "" for folder markers and for keys of another folder."""
    if key.endswith("/"):
        return ""
    if key == prefix:
        return key.rpartition("/")[2]
    return key.removeprefix(prefix).lstrip("/") if not prefix or key.startswith(prefix + "/") else ""


@contextmanager
def _read_errors(address: str) -> Iterator[None]:
    """Turn errors of boto3 (and botocore, urllib3, `ValueError`) and of fsspec into `AdvisorError`."""
    try:
        yield
    except Exception as error:
        code = getattr(error, "response", {}).get("Error", {}).get("Code", "")
        names = {str(code), *(kind.__name__ for kind in type(error).__mro__)}
        for codes, (kind, text, hint) in _REFUSALS.items():
            if names & set(codes):
                text = text.format(address=address, reason=code)
                raise kind(text, hint=hint, field="data" if kind is UsageError else None) from error
        raise _unreachable(address, code or error) from error


def _unreachable(address: str, error: object) -> DataError:
    return DataError(
        f"{address} cannot be read ({error})",
        hint="check network, credentials and address, and run the command again: it continues",
    )
