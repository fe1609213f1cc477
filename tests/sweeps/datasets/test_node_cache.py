"""A data set comes to a machine once, whole, and goes when another one needs its room."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from advisor.errors import DataError, UsageError
from advisor.sweeps.datasets.node_cache import cached_data, is_cached, remote_profile
from advisor.sweeps.datasets.remote import RemoteFile
from tests.sweeps.builders import PROFILE
from tests.sweeps.datasets import object_store

FILES = {f"class{n % 3}/{n:02d}.jpg": bytes([n]) * (50_000 + n) for n in range(24)}
TOTAL = sum(map(len, FILES.values()))
ADDRESS = f"s3://{object_store.BUCKET}/train"
# Brings the data set, and prints what it brought; stops after so many files until it is ended.
FILL = """
import sys, time
from advisor.sweeps.datasets.node_cache import cached_data
stop_after = int(sys.argv[2])
def progress(here, all):
    if here == stop_after:
        print("here", flush=True)
        time.sleep(60)
with cached_data(sys.argv[1], progress) as cached:
    print(cached.fetched_bytes, flush=True)
"""


@pytest.fixture(scope="module")
def store_url():
    with object_store.object_store() as url:
        object_store.put(url, {f"train/{path}": content for path, content in FILES.items()})
        yield url


@pytest.fixture
def cache(store_url, tmp_path, monkeypatch):
    for name, value in object_store.ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", store_url)
    monkeypatch.setenv("ADVISOR_DATA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def folder(tmp_path):
    """Makes a folder of so many bytes; returns its address."""

    def made(name: str, size: int) -> str:
        path = tmp_path / "sources" / name
        path.mkdir(parents=True)
        (path / "a.jpg").write_bytes(bytes(size))
        return f"file://{path}"

    return made


def content_of(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def filling(stop_after: int = 0) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", FILL, ADDRESS, str(stop_after)], stdout=subprocess.PIPE, text=True
    )


def test_it_is_filled_once_and_the_filling_is_measured(cache):
    seen: list[tuple[int, int]] = []
    with cached_data(ADDRESS, lambda here, files: seen.append((here, files))) as first:
        assert content_of(first.path) == FILES
        assert first.path.name == "train"
        assert (first.files, first.bytes, first.fetched_bytes) == (24, TOTAL, TOTAL)
        assert first.fill_seconds > 0
    assert seen[-1] == (24, 24)
    with cached_data(ADDRESS) as again:
        assert (again.path, again.fetched_bytes) == (first.path, 0)
        assert again.fill_seconds == first.fill_seconds


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGINT])
def test_a_fill_that_was_ended_is_never_read_and_the_next_one_goes_on(cache, ending):
    """A real process, ended in the middle; what it brought is not brought again."""
    with filling(stop_after=5) as process:
        assert process.stdout.readline() == "here\n"
        process.send_signal(ending)
        process.wait(30)
    assert not is_cached(ADDRESS)
    left = {path: path.read_bytes() for path in cache.rglob("*.jpg")}
    assert left
    with cached_data(ADDRESS) as cached:
        assert content_of(cached.path) == FILES
        assert cached.fetched_bytes == TOTAL - sum(map(len, left.values()))


def test_processes_of_one_machine_bring_it_once(cache):
    """While one fills, the others wait; then all read the same."""
    processes = [filling() for _ in range(3)]
    fetched = sorted(int(process.communicate(timeout=60)[0]) for process in processes)
    assert fetched == [0, 0, TOTAL]


def test_what_changed_in_the_middle_of_a_fill_is_brought_anew(cache, store_url):
    keys = {f"changing/{n}.jpg": bytes([n]) * 1000 for n in range(4)}
    address = f"s3://{object_store.BUCKET}/changing"
    object_store.put(store_url, keys)
    with pytest.raises(KeyboardInterrupt), cached_data(address, _interrupt):
        pass
    fresh = {"changing/1.jpg": b"x" * 1000, "changing/new.jpg": b"n"}
    object_store.put(store_url, fresh)
    object_store.client(store_url).delete_object(Bucket=object_store.BUCKET, Key="changing/2.jpg")
    with cached_data(address) as cached:
        assert content_of(cached.path) == {
            "0.jpg": keys["changing/0.jpg"],
            "1.jpg": b"x" * 1000,
            "3.jpg": keys["changing/3.jpg"],
            "new.jpg": b"n",
        }


def _interrupt(here: int, files: int) -> None:
    if here == files - 1:
        raise KeyboardInterrupt


def test_the_data_set_that_was_not_used_for_longest_goes_first(cache, folder, monkeypatch):
    monkeypatch.setenv("ADVISOR_DATA_CACHE_GIB", str(2.5 * 2**20 / 2**30))
    old, used, new = (folder(name, 2**20) for name in ("old", "used", "new"))
    for address in (old, used):
        with cached_data(address) as cached:
            os.utime(cached.path.parent / "about.json", (1, 1))
    with cached_data(used):
        pass
    with cached_data(new):
        pass
    assert [is_cached(address) for address in (old, used, new)] == [False, True, True]


def test_what_is_read_now_and_what_is_not_the_caches_own_is_never_removed(cache, folder, monkeypatch):
    monkeypatch.setenv("ADVISOR_DATA_CACHE_GIB", str(1.5 * 2**20 / 2**30))
    first, second = folder("first", 2**20), folder("second", 2**20)
    with cached_data(first) as held:
        with pytest.raises(DataError, match=r"do not fit.*ADVISOR_DATA_CACHE"), cached_data(second):
            pass
        assert (held.path / "a.jpg").stat().st_size == 2**20
    with cached_data(second):
        assert not is_cached(first)
    monkeypatch.setenv("ADVISOR_DATA_CACHE_GIB", str(2**20 / 2**30 / 2))
    (cache / "mine").mkdir(parents=True)
    (cache / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(DataError, match="do not fit"), cached_data(folder("large", 2**20)):
        pass
    assert (cache / "mine" / "thesis.txt").read_text() == "years of work"


@pytest.fixture
def listed(monkeypatch):
    """A place whose listing says what a test wants."""

    def use(*files: RemoteFile) -> None:
        store = SimpleNamespace(store="", files=lambda: iter(files), read=lambda _file: iter([b"content"]))
        monkeypatch.setattr("advisor.sweeps.datasets.node_cache.remote_folder", lambda _address: store)

    return use


def test_content_that_is_cut_off_is_never_kept(cache, listed, monkeypatch):
    monkeypatch.setattr("advisor.sweeps.datasets.node_cache._TRIES", 1)
    listed(RemoteFile("a.jpg", "", 8))
    with pytest.raises(DataError, match=r"did not come whole.*continues"), cached_data("s3://x/set"):
        pass
    assert not list(cache.rglob("*.jpg"))


@pytest.mark.parametrize("path", ["../outside.jpg", "a//b.jpg", "/etc/passwd", "a/./b"])
def test_a_name_that_leads_out_of_the_folder_is_refused(cache, listed, path):
    listed(RemoteFile(path, "", 7))
    with pytest.raises(DataError, match="cannot be the name"), cached_data("s3://any/set"):
        pass


def test_a_prefix_without_files_is_named_and_one_bucket_of_two_stores_is_two_data_sets(
    cache, store_url, monkeypatch
):
    with pytest.raises(UsageError, match="nothing at"), cached_data(f"{ADDRESS}-2"):
        pass
    text = msgspec.json.encode({"profile": PROFILE})
    object_store.put(store_url, {"told/profile.json": text, "told/a.tar": b"x"})
    assert remote_profile(f"s3://{object_store.BUCKET}/told") == PROFILE
    assert remote_profile(ADDRESS) is None
    assert not is_cached(ADDRESS)
    with cached_data(ADDRESS) as entry, cached_data(f"{ADDRESS}/") as same:
        assert entry.path == same.path
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9/another-store")
    assert not is_cached(ADDRESS)


def test_a_cache_that_cannot_be_written_is_told_with_the_way_out(cache, monkeypatch):
    cache.parent.joinpath("file").write_text("in the way")
    monkeypatch.setenv("ADVISOR_DATA_CACHE", str(cache.parent / "file" / "cache"))
    with pytest.raises(DataError, match="another folder with ADVISOR_DATA_CACHE"), cached_data(ADDRESS):
        pass
