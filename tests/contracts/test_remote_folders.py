"""Every place that data come from lists, reads and refuses alike: S3, and by fsspec."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from uuid import uuid4

import pytest
from fsspec.implementations.local import LocalFileSystem

from advisor.errors import AdvisorError, DataError, UsageError
from advisor.sweeps.datasets.remote import name_of, remote_folder
from tests.loopback import on_loopback
from tests.sweeps.datasets import object_store

FILES = {"cats/a.jpg": b"one", "dogs/b c.jpg": b"two" * 1000, "profile.json": b"{}"}


@pytest.fixture(scope="module")
def store_url():
    with object_store.object_store() as url:
        yield url


@contextmanager
def refusing(code):
    """A server that answers every request with 403 and a code."""

    class Refusal(BaseHTTPRequestHandler):
        def do_GET(self):
            body = f"<Error><Code>{code}</Code></Error>".encode()
            self.send_response(403)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with on_loopback(Refusal) as server:
        yield f"http://127.0.0.1:{server.server_port}"


class Expired(Exception):
    """As the libraries of stores raise for a login that has expired: an exception of their own."""


class FolderContract:
    """What a place must do."""

    def put(self, prefix: str, files: dict[str, bytes]) -> str:
        """Put the files beneath a prefix; returns its address."""
        raise NotImplementedError

    def test_every_file_is_listed_beneath_the_address_and_read_whole(self):
        folder = remote_folder(self.put("set", FILES))
        files = {file: b"".join(folder.read(file)) for file in folder.files()}
        assert {file.path: content for file, content in files.items()} == FILES
        assert [file.size for file in files] == list(map(len, files.values()))

    def test_a_prefix_is_a_folder_and_what_changes_gets_another_tag(self):
        address = self.put("set", {"a.jpg": b"1"})
        self.put("set-two", {"b.jpg": b"2"})
        assert [file.path for file in remote_folder(address).files()] == ["a.jpg"]
        address = self.put("set", {"a.jpg": b"one"})
        before = [file.tag for file in remote_folder(address).files()]
        self.put("set", {"a.jpg": b"two"})
        assert [file.tag for file in remote_folder(address).files()] != before

    def test_one_file_is_a_data_set_too_and_can_be_asked_for(self):
        folder = remote_folder(self.put("set", {"train.rec": b"records"}) + "/train.rec")
        (file,) = folder.files()
        assert (file.path, b"".join(folder.read(file))) == ("train.rec", b"records")
        folder = remote_folder(self.put("set", FILES))
        assert [file.path for file in folder.files("profile.json")] == ["profile.json"]


class TestS3(FolderContract):
    @pytest.fixture(autouse=True)
    def _store(self, store_url, monkeypatch):
        for name, value in object_store.ENVIRONMENT.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", store_url)
        self.url, self.bucket = store_url, f"bucket-{uuid4().hex[:8]}"

    def put(self, prefix, files):
        keys = {f"{prefix}/{path}": content for path, content in files.items()}
        object_store.put(self.url, keys, self.bucket)
        return f"s3://{self.bucket}/{prefix}"

    def test_a_bucket_that_is_not_there_is_named(self):
        with pytest.raises(UsageError, match=r"nothing at s3://nowhere.*AWS_ENDPOINT_URL"):
            list(remote_folder("s3://nowhere/set").files())

    @pytest.mark.parametrize(
        ("code", "words"), [("InvalidAccessKeyId", "sign in again"), ("AccessDenied", "s3:ListBucket")]
    )
    def test_what_s3_refuses_says_the_way_out(self, monkeypatch, code, words):
        """By a server that refuses as S3 does: moto takes any key."""
        with refusing(code) as url:
            monkeypatch.setenv("AWS_ENDPOINT_URL_S3", url)
            with pytest.raises(DataError, match=words):
                list(remote_folder("s3://photos/set").files())

    def test_what_was_overwritten_since_it_was_listed_is_refused(self):
        """Of the same size, it would be taken for what the listing says."""
        folder = remote_folder(self.put("set", {"a.jpg": b"one"}))
        (file,) = folder.files()
        self.put("set", {"a.jpg": b"two"})
        with pytest.raises(DataError, match="change while"):
            list(folder.read(file))

    def test_a_store_that_is_wrong_or_does_not_answer_is_named(self, monkeypatch):
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "no endpoint")
        with pytest.raises(DataError, match="no endpoint"):
            list(remote_folder("s3://photos/set").files())
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9")
        monkeypatch.setattr("advisor.sweeps.datasets.remote._TRIES", 1)
        with pytest.raises(DataError, match="check network, credentials"):
            list(remote_folder("s3://photos/set").files())

    def test_a_public_bucket_is_read_without_credentials(self, monkeypatch):
        address = self.put("set", {"a.jpg": b"1"})
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.delenv(name)
        assert [file.path for file in remote_folder(address).files()] == ["a.jpg"]


class TestFsspec(FolderContract):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path):
        self.folder = tmp_path

    def put(self, prefix, files):
        for path, content in files.items():
            position = self.folder / prefix / path
            position.parent.mkdir(parents=True, exist_ok=True)
            position.write_bytes(content)
        return f"file://{self.folder}/{prefix}"

    def test_an_address_with_nothing_is_named(self):
        with pytest.raises(UsageError, match="nothing at"):
            list(remote_folder(f"file://{self.folder}/nowhere").files())

    @pytest.mark.parametrize("fault", [OSError("503"), PermissionError("no right"), Expired()])
    def test_a_folder_that_cannot_be_listed_is_never_left_out(self, monkeypatch, fault):
        address, listed = self.put("set", FILES), LocalFileSystem.ls

        def ls(system, path, **options):
            if path.endswith("dogs"):
                raise fault
            return listed(system, path, **options)

        monkeypatch.setattr(LocalFileSystem, "ls", ls)
        with pytest.raises(DataError, match="credentials"):
            list(remote_folder(address).files())

    def test_without_fsspec_the_extra_is_named(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "fsspec", None)
        with pytest.raises(UsageError, match=r"pip install .*\[data\]"):
            list(remote_folder("gs://photos/set").files())

    @pytest.mark.parametrize("address", ["nonsense://x/y", "wrong+scheme://x"])
    def test_an_address_of_no_kind_is_refused(self, address):
        with pytest.raises(AdvisorError, match="no address that can be read"):
            list(remote_folder(address).files())


@pytest.mark.parametrize("address", ["s3://", "file:///", "s3://.."])
def test_an_address_without_a_name_is_no_data_set(address):
    with pytest.raises(UsageError, match="names no data set"):
        name_of(address)


def test_a_name_is_what_a_folder_would_be_called():
    assert name_of("s3://bucket/some/photos/") == "photos"
    assert Path(name_of("s3://bucket")).name == "bucket"
